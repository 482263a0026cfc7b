// How explorers look. Colours are variables, for a light and a dark page.

export const STYLE = `
:host { display: block; container-type: inline-size; }
.card {
  --raw: #b04600; --scaled: #0b61a4; --good: #00704f; --ink: #16202b; --mute: #4a5662;
  --line: #cdd5dd; --paper: #ffffff; --soft: #f2f5f9; --warm: #fff3ea; --edge: #7d8995;
  --hatch: #d3dae1; --hatched: #eef1f5; --focus: #d98200; --on: #ffffff; --cool: #e6f1fa;
  --mono: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  box-sizing: border-box; max-width: 1180px; margin: 4px 0; padding: 18px 22px 20px;
  border: 1px solid var(--line); border-radius: 12px; background: var(--paper); color: var(--ink);
  font: 16px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  color-scheme: light; contain: content;
}
.card.dark {
  --raw: #ff9d5c; --scaled: #79bdf5; --good: #5fd3a8; --ink: #e9eef3; --mute: #b3bfca;
  --line: #3a4652; --paper: #141a21; --soft: #1d262f; --warm: #33231a; --edge: #8a97a4;
  --hatch: #3b4855; --hatched: #232d37; --focus: #ffb84d; --on: #0d1319; --cool: #16293a;
  color-scheme: dark;
}
.card.large { font-size: 20px; max-width: 1500px; }
.card *, .card *::before { box-sizing: border-box; }
h3 { margin: 0 0 2px; font-size: 1.4em; line-height: 1.25; font-weight: 680; }
.hint { margin: 0 0 14px; color: var(--mute); font-size: 1.03em; }
.bar { display: flex; flex-wrap: wrap; gap: 12px 26px; align-items: center; margin: 0 0 16px;
  padding: 12px 16px; border-radius: 10px; background: var(--soft); }
.bar.dense { gap: 12px 16px; } .dense button, .dense .choice span { padding: 6px 10px; }
.picture { display: flex; flex-wrap: wrap; gap: 18px 26px; align-items: flex-start; }
.picture.stale > :not(.kept, .main), .picture.stale > .main > :not(.chips) { opacity: 0.25;
  filter: grayscale(1); }
.veiled { filter: blur(9px) grayscale(1); opacity: 0.3; }
.panel { flex: 1 1 15em; min-width: min(100%, 15em); max-width: 27em; }
.large .panel { flex-basis: 17em; min-width: min(100%, 17em); }
.below { flex: 1 1 19em; min-width: min(100%, 19em); }
.panel h4, .side h4, .main h4, .below h4 { margin: 0; font-size: 1.1em; font-weight: 680; }
.panel .under { margin: 0 0 8px; min-height: 2.9em; white-space: pre-line; color: var(--mute); font-size: 0.92em; }
.main { flex: 1 1 26em; min-width: min(100%, 18.5em); }
.side { flex: 1 1 20em; min-width: min(100%, 18.5em); }
.side > * + h4, .main > * + h4 { margin-top: 16px; }
.raw { color: var(--raw); } .scaled { color: var(--scaled); }

label, .label { font-weight: 620; }
.control { display: inline-flex; flex-wrap: wrap; gap: 8px 12px; align-items: center;
  max-width: 100%; margin: 0; padding: 0; border: 0; min-width: 0; }
.slider { flex-wrap: nowrap; }
input[type=range] { width: 300px; max-width: 100%; min-width: 90px; height: 30px; margin: 0;
  flex: 0 1 auto; accent-color: var(--scaled); cursor: pointer; }
input[type=range].narrow { width: 180px; }
output { min-width: 4.2ch; font: 700 1.4em/1 var(--mono); }
button, .choice span { font: inherit; font-weight: 600; line-height: 1.3; min-height: 38px;
  padding: 6px 13px; border: 1.5px solid var(--edge); border-radius: 8px; color: var(--ink);
  background: var(--paper); cursor: pointer; }
button:hover, .choice span:hover { background: var(--cool); }
.choice { display: inline-flex; flex-wrap: wrap; }
.choice label { position: relative; display: inline-flex; margin-left: -1.5px; }
.choice input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0;
  cursor: pointer; }
.choice span { display: inline-flex; align-items: center; border-radius: 0; }
.choice label:first-of-type span { border-radius: 8px 0 0 8px; }
.choice label:last-of-type span { border-radius: 0 8px 8px 0; }
.choice input:checked + span, button[aria-pressed=true].keep { color: var(--on);
  background: var(--scaled); border-color: var(--scaled); }
.choice input:focus-visible + span { outline: 3px solid var(--focus); outline-offset: 2px;
  z-index: 1; }
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
.chips { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 0 0 14px; }
.chips .label { margin-right: 4px; }
.plain { padding: 6px 4px; border-color: transparent; background: none; font-weight: 400;
  text-decoration: underline; }
.chips button[aria-pressed=true] { color: var(--raw); border-color: var(--raw);
  background: var(--warm); text-decoration: line-through 2px; }

table { width: 100%; border-collapse: separate; border-spacing: 3px; table-layout: fixed; }
table.box { border: 2.5px solid currentColor; border-radius: 9px; }
table .word { width: 3.4em; }
.panel table .word { width: 2.9em; } .panel th { font-size: 0.9em; }
table .sum { width: 7.2em; }
th { padding: 0; font-size: 0.97em; font-weight: 620; color: var(--ink);
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
th[scope=row] { text-align: right; padding-right: 6px; }
td { padding: 0; text-align: center; }
td.sum, th.sum { padding-left: 8px; text-align: left; font-size: 0.97em; white-space: nowrap; }
.bad { color: var(--raw); font-weight: 680; } .fine { color: var(--good); font-weight: 620; }
.cell { display: grid; place-items: center; width: 100%; min-height: 0; aspect-ratio: 1;
  padding: 0; border: 0; border-radius: 5px; font: 600 1.02em/1 var(--mono); }
.cell.blocked { color: var(--mute); background: repeating-linear-gradient(45deg,
  var(--hatch) 0 5px, var(--hatched) 5px 10px); }
.cell.nan { color: var(--raw); background: var(--warm);
  box-shadow: inset 0 0 0 2px var(--raw); font-size: 0.9em; }
.cell.zero { color: var(--mute) !important; font-weight: 400; }
.cell.leak { box-shadow: inset 0 0 0 3px var(--raw); }
button.cell:hover { box-shadow: inset 0 0 0 3px var(--ink); }
.key { display: grid; grid-template-columns: 28px 1fr; gap: 7px 10px; align-items: center;
  margin: 6px 0 0; font-size: 0.97em; }
.key i { width: 26px; height: 26px; border-radius: 5px; font: 600 0.64em/26px var(--mono);
  text-align: center; font-style: normal; }
.key i.nan { font-size: 0.64em; }
.detail { margin: 4px 0 0; min-height: 2.9em; }

svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-family: inherit; fill: var(--ink); font-size: 14.5px; }
svg .grid { stroke: var(--line); } svg .now { stroke: var(--ink); stroke-dasharray: 3 4; }
svg .line { fill: none; stroke: currentColor; stroke-width: 3.4; stroke-linejoin: round;
  stroke-linecap: round; }
svg .dot { fill: currentColor; stroke: var(--paper); stroke-width: 2.2; }
.pickable { cursor: crosshair; touch-action: pan-y; }
.legend { display: grid; grid-template-columns: 40px 1fr; gap: 2px 10px; margin: 4px 0 0;
  align-items: center; font-size: 0.94em; }
.legend svg { width: 40px; }

pre { margin: 6px 0 0; padding: 11px 14px; border-radius: 8px; background: var(--soft);
  color: var(--ink); font: 600 0.83em/1.55 var(--mono); white-space: pre-wrap;
  overflow-wrap: anywhere; }
pre .row { display: block; padding-left: 2ch; text-indent: -2ch; }
pre .whole { display: inline-block; max-width: 100%; text-indent: 0; }
.say { margin: 16px 0 0; padding: 10px 15px; border-left: 5px solid var(--scaled);
  border-radius: 0 8px 8px 0; background: var(--soft); font-size: 1.12em; }
.say.bad { border-color: var(--raw); background: var(--warm); color: var(--ink);
  font-weight: inherit; }
.note { margin: 10px 0 0; color: var(--mute); font-size: 0.95em; }
.error { margin: 0 0 14px; padding: 10px 15px; border-left: 5px solid var(--raw);
  background: var(--warm); white-space: pre-wrap; }
.gate { display: flex; flex-wrap: wrap; gap: 10px 12px; align-items: center; margin: 0 0 16px;
  padding: 12px 16px; border: 2px dashed var(--edge); border-radius: 10px;
  background: var(--soft); font-size: 1.05em; }
.gate p { margin: 0; flex: 1 1 300px; }
.gate.right, .gate.wrong { border-style: solid; border-color: var(--good); }
.gate.wrong { border-color: var(--raw); }
[hidden] { display: none !important; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }

@container (max-width: 900px) {
  .bar { gap: 10px 18px; }
  input[type=range] { width: 190px; } input[type=range].narrow { width: 110px; }
  .card:not(.large) .chips { gap: 6px; } .card:not(.large) .chips button { padding-inline: 9px; }
}
@container (max-width: 960px) {
  .card:not(.large) .panel table .cell { font-size: 0.9em; }
  .panel .under { font-size: 0.82em; } .panel:not(.flat) th { font-size: 0.8em; }
  .panel:not(.flat) table .word { width: 2.4em; }
}
@container (min-width: 818px) { .below { flex-basis: 100%; } }
@container (max-width: 560px) {
  .card { padding: 14px 12px 16px; font-size: 15px; }
  .bar { padding: 10px 12px; }
  table { border-spacing: 2px; }
  table .word { width: 3.1em; }
  table .sum { width: 5em; }
  .wide { display: none; }
  .cell { font-size: 0.9em; }
  pre { padding: 9px 10px; font-size: 0.78em; }
}
@media (prefers-reduced-motion: no-preference) {
  .picture > *, .main > * { transition: filter 0.3s, opacity 0.3s; }
}
@media print { .bar, .gate { display: none; } }

.bars { max-width: 620px; border-spacing: 0 7px; }
.bars .name { width: 4.1em; } .bars .few { width: 3.6em; } .bars .figure { width: 4.2em; } .bars col.marked { width: 6.4em; }
.bars thead th { color: var(--mute); font-weight: 400; font-size: 0.92em; }
.bars thead .few, .bars td.few { padding-right: 10px; text-align: right; }
.bars .length, .bars td.figure { text-align: left; }
.bars td.few, .bars td.figure { font: 500 1em/1.2 var(--mono); white-space: nowrap; }
.bars td.figure { padding-left: 9px; } .bars td.figure span { color: var(--good); font-weight: 700; }
.bars th[scope=row], .bars th:first-child { text-align: left; }
.track { position: relative; height: 30px; border-radius: 4px; background: var(--soft); }
.track i { position: absolute; inset: 0 auto 0 0; border-radius: 4px; }
.track .fill { min-width: 2px; background: var(--scaled); }
.track .outline { inset: -3px auto -3px 0; border: 2.5px dashed var(--raw); }

.plane { position: relative; aspect-ratio: 4 / 3; margin: 8px 0 10px; overflow: hidden;
  border-radius: 10px; background: linear-gradient(90deg,
  color-mix(in srgb, var(--good) 15%, var(--paper)) 50%, var(--warm) 50%); }
.plane > * { position: absolute; }
.plane > svg, .plane .words { inset: 0; width: 100%; height: 100%; }
.plane .stripe { inset: 0 auto 0 50%; transform: translateX(-50%); background: var(--soft); }
.plane .pull { stroke: var(--scaled); stroke-linecap: round; opacity: 0.3; }
.plane .path { stroke: var(--scaled); stroke-width: 3px; stroke-dasharray: 2 6; }
.plane line { vector-effect: non-scaling-stroke; }
.plane .corner { top: 6px; font-size: 0.92em; font-weight: 620; color: var(--mute); }
.plane .c0 { left: 10px; } .plane .c2 { right: 10px; }
.plane .c1 { left: 50%; transform: translateX(-50%); font-weight: 400; }
.plane .c3 { top: 62%; left: 10px; font-weight: 400; }
.plane .token { position: absolute; min-width: 44px; height: 44px; padding: 0; border: 0;
  transform: translate(-50%, -50%); background: none; cursor: grab; line-height: 1; }
.plane .token:active { cursor: grabbing; }
.plane .token i { display: block; width: 13px; height: 13px; margin: 14px auto 1px;
  border-radius: 50%; background: var(--ink); }
.plane .token .ring { background: var(--paper); box-shadow: 0 0 0 3px var(--scaled); }
.at { transform: translate(-50%, -50%); pointer-events: none; }
i.end, .key i.end { width: 22px; height: 22px; border: 2.5px solid var(--paper);
  border-radius: 50%; background: var(--scaled); }
i.average, .key i.average { width: 16px; height: 16px; border: 2px solid var(--paper);
  border-radius: 2px; background: var(--raw); rotate: 45deg; }
.key i.average { margin-left: 3px; }
mark { padding: 0 4px; border-radius: 4px; background: var(--cool); color: inherit; }

.field { margin-top: 8px; } .field rect { fill: var(--soft); }
.field .shaft { stroke: currentColor; }
.field .handle { cursor: grab; } .field .handle:active { cursor: grabbing; }
.field .handle text { fill: var(--on); font-weight: 700; } .field .target { fill: transparent; }
.handle:focus-visible { outline: none; }
.handle:focus-visible .dot { stroke: var(--focus); stroke-width: 4; }
svg .name { font-weight: 700; }
.balance { max-width: 470px; }
.balance .hull { stroke: color-mix(in srgb, var(--scaled) 35%, var(--paper)); stroke-width: 7; }

.panel.flat { flex: 1 1 21em; max-width: none; } .flat table .sum { width: 5.1em; }
.flat .sum { padding-left: 4px; } .flat td.sum { font-size: 0.9em; }
.panel.flat.wider { flex: 1 1 25em; }
.large .panel.flat { flex-basis: 24em; } .large .panel.flat.wider { flex-basis: 28em; }
.flat .cell { display: block; aspect-ratio: auto; height: 2.5em; line-height: 2.5em; }
.flat thead th { font-size: 0.76em; letter-spacing: -0.03em; }
.flat table .word { width: 2.6em; }

.crossing { flex: 1 1 20em; } .crossing .text { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 1fr);
  justify-items: center; }
.crossing button { padding: 6px 7px; } .crossing .text span { padding: 6px 0; font-weight: 620; }
.crossing h4 { margin: 2px 0 6px; text-align: center; font-size: 0.95em; color: var(--mute); }
.crossing svg { height: 190px; } .crossing .pull { stroke: var(--scaled); opacity: 0.55;
  vector-effect: non-scaling-stroke; }
.crossed { flex: 1 1 27.5em; } .crossed th { font-size: 0.9em; }
.crossed table .word { width: 7.2em; } .crossed table .sum { width: 3.5em; }
.crossed tbody th { font-size: 0.84em; padding-right: 5px; }
.crossed .picked .cell { box-shadow: inset 0 0 0 3px var(--raw); }
.crossed .picked th { color: var(--raw); }
.crossing .lines h4 { margin: 18px 0 0; text-align: left; font-size: 1.1em; color: inherit; }
.checks { list-style: none; margin: 6px 0 0; padding: 0; }
.checks li { display: grid; grid-template-columns: 1.6em 1fr; padding: 3px 0; }
.checks i { font: 700 1.05em/1.4 var(--mono); } .checks small { display: block; font-size: 0.93em; }
.checks .is-yes i { color: var(--good); } .checks .is-note, .checks .is-open { color: var(--mute); }
.checks .is-no { margin: 3px 0; padding: 5px 0 6px; border-radius: 7px; background: var(--warm); }
.checks .is-no i { padding-left: 6px; color: var(--raw); } .checks .is-no > span { padding-right: 8px; font-weight: 680; }
.checks .is-no small { font-weight: 400; }
@container (max-width: 560px) {
  .flat .cell, .flat td.sum { font-size: 0.82em; }
  .crossed table .word { width: 6.2em; } .crossed tbody th { font-size: 0.72em; letter-spacing: -0.02em; }
}
@container (min-width: 1000px) {
  .panel.flat { flex-basis: 26em; } .panel.flat.wider { flex-basis: 30em; }
}
@container (max-width: 870px) {
  .card:not(.large) .flat thead th { font-size: 0.72em; }
}
@container (max-width: 420px) {
  .card:not(.large) .flat thead th { font-size: 0.66em; letter-spacing: -0.05em; }
}
@container (max-width: 831px) {
  .crossing { display: contents; } .crossing .net { flex: 1 1 100%; }
  .crossing .lines { flex: 1 1 100%; order: 1; } .crossing .lines h4 { margin: 0; }
}
`;
