"""A report as HTML: for JupyterLab in light and dark, exported pages and print. No script."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from attnlab.clinic._report import Evidence, Finding, Report, lesson_title

# matplotlib's "Blues", as attnlab.plotting paints weights: from 0 to 1
BLUES = (
    (247, 251, 255),
    (222, 235, 247),
    (198, 219, 239),
    (158, 202, 225),
    (107, 174, 214),
    (66, 146, 198),
    (33, 113, 181),
    (8, 81, 156),
    (8, 48, 107),
)
UNSHADED = "sum"  # a row or column of this name holds totals

CSS = """<style>
.attnlab-report { box-sizing: border-box; max-width: 860px; margin: 8px 0; padding: 10px 16px;
  border: 1px solid var(--jp-border-color1, #767676); border-left: 6px solid #b84a00;
  background: var(--jp-layout-color0, #ffffff); color: var(--jp-content-font-color0, #1c1c1c);
  font-size: 16px; line-height: 1.45; overflow-wrap: anywhere; }
.attnlab-report.attnlab-ok { border-left-color: #0b61a4; }
.attnlab-report p { margin: 6px 0; }
.attnlab-report .attnlab-title { font-weight: 700; font-size: 17px; }
.attnlab-report .attnlab-kind { font-weight: 400; }
.attnlab-report .attnlab-sentence { font-size: 20px; line-height: 1.4; margin: 8px 0 12px; }
.attnlab-report .attnlab-finding { margin-top: 14px; padding-top: 8px;
  border-top: 1px solid var(--jp-border-color1, #767676); }
.attnlab-report code { font: 15px/1.5 var(--jp-code-font-family, monospace); padding: 2px 6px;
  background: var(--jp-layout-color2, #eeeeee); color: var(--jp-content-font-color0, #1c1c1c);
  white-space: normal; -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.attnlab-report p a:link, .attnlab-report p a:visited { text-decoration: underline;
  color: var(--jp-content-link-color, #0b4f8a); }
.attnlab-report summary { cursor: pointer; padding: 4px 0; font-weight: 600; }
.attnlab-report ul { margin: 2px 0 6px; padding-left: 24px; }
.attnlab-report .attnlab-wide { overflow-x: auto; margin: 8px 0; }
.attnlab-report table.attnlab-evidence { border-collapse: collapse; margin: 0;
  font-size: 15px; color: inherit; table-layout: auto; border: none; }
.attnlab-report table.attnlab-evidence caption { caption-side: top; text-align: left;
  padding: 2px 0 6px; color: inherit; font-size: 15px; }
.attnlab-report table.attnlab-evidence tr,
.attnlab-report table.attnlab-evidence tbody tr:nth-child(odd),
.attnlab-report table.attnlab-evidence tbody tr:hover { background: transparent; }
.attnlab-report table.attnlab-evidence th, .attnlab-report table.attnlab-evidence td {
  padding: 5px 9px; border: 1px solid var(--jp-border-color1, #767676); text-align: right;
  white-space: nowrap; max-width: none; font-variant-numeric: tabular-nums; }
.attnlab-report table.attnlab-evidence th { font-weight: 600; background: transparent; }
.attnlab-report table.attnlab-evidence th[scope=row] { text-align: left; }
.attnlab-report table.attnlab-evidence td.attnlab-odd { font-weight: 700;
  outline: 2px solid currentColor; outline-offset: -3px; }
@media (max-width: 480px) {
  .attnlab-report { padding: 8px; }
  .attnlab-report .attnlab-sentence { font-size: 18px; }
  .attnlab-report table.attnlab-evidence { font-size: 13px; }
  .attnlab-report table.attnlab-evidence th, .attnlab-report table.attnlab-evidence td {
    padding: 3px 4px; } }
@media print { .attnlab-report td { print-color-adjust: exact; } }
</style>"""


def report_html(report: Report) -> str:
    """Return a report as HTML that needs no script and no other file.

    Parameters
    ----------
    report : Report
        What ``diagnose`` found.

    Returns
    -------
    str
        A style and a ``<section>``; the same text for the same report.

    See Also
    --------
    attnlab.display.show_figure : the same for pictures.
    """
    first, *others = report.findings or (None,)
    parts = [_headline(report), f'<p class="attnlab-sentence">{escape(report.summary)}</p>']
    if first is not None:
        parts.append(_details_of(first))
    for number, finding in enumerate(others, 2):
        parts.append(
            f'<div class="attnlab-finding"><p><b>{number}. {escape(finding.name)}:</b> '
            f"{escape(str(finding))}</p>{_details_of(finding)}</div>"
        )
    parts.append(_folded("Good to know", report.notes, opened=False))
    parts.append(_folded("Checked, and it holds", report.properties, opened=report.ok))
    state = " attnlab-ok" if report.ok else ""
    label = escape(f"Report on {report.target}", quote=True)
    body = "\n".join(part for part in parts if part)
    return (
        f'{CSS}\n<section class="attnlab-report{state}" aria-label="{label}">\n{body}\n</section>'
    )


def _headline(report: Report) -> str:
    """Return the name of the target and of the finding, and how many there are."""
    if report.ok:  # the sentence below says so in words
        mark, state = "&#10003;", ""
    else:
        mark, state = "&#10007;", f": {escape(report.findings[0].name)}"
        more = len(report.findings) - 1
        state += f" and {more} other finding{'s' if more > 1 else ''}" if more else ""
    return (
        f'<p class="attnlab-title"><span aria-hidden="true">{mark}</span> '
        f"{escape(report.target)}{state} "
        f'<span class="attnlab-kind">({escape(report.kind)})</span></p>'
    )


def _details_of(finding: Finding) -> str:
    """Return what stands below the sentence of a finding: evidence, fix, lesson, consequences."""
    evidence = _table(finding.evidence) if finding.evidence is not None else ""
    link = escape(f"{finding.lesson}.ipynb", quote=True)
    title = escape(lesson_title(finding.lesson))
    follows = tuple(f"{one.name}: {one}" for one in finding.consequences)
    return (
        f"{evidence}<p>Fix: <code>{escape(finding.fix)}</code></p>"
        f'<p>It is explained in <a href="{link}">{title}</a>.</p>'
        f"{_folded('Follows from it', follows, opened=False)}"
    )


def _folded(title: str, sentences: Iterable[str], *, opened: bool) -> str:
    items = [f"<li>{escape(sentence)}</li>" for sentence in sentences]
    if not items:
        return ""
    state = " open" if opened else ""
    summary = f"<summary>{escape(title)} ({len(items)})</summary>"
    return f"<details{state}>{summary}<ul>{''.join(items)}</ul></details>"


def _table(evidence: Evidence) -> str:
    """Return a table with headers for its rows and columns."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in evidence.columns)
    rows = []
    for name, numbers, texts in zip(
        evidence.rows, evidence.values.tolist(), evidence.cells(), strict=True
    ):
        cells = [
            _cell(number, text, evidence.shaded and UNSHADED not in (name, column))
            for number, text, column in zip(numbers, texts, evidence.columns, strict=True)
        ]
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    caption = escape(evidence.caption)
    return (
        f'<div class="attnlab-wide" role="region" tabindex="0" aria-label="{caption}">'
        f'<table class="attnlab-evidence"><caption>{caption}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(number: float, text: str, shaded: bool) -> str:
    if not math.isfinite(number):
        return f'<td class="attnlab-odd">{escape(text)}</td>'
    if not shaded:
        return f"<td>{escape(text)}</td>"
    colour = shade(number)
    ink = "#000000" if luminance(colour) > 0.179 else "#ffffff"  # where both contrasts are equal
    paint = "#{:02x}{:02x}{:02x}".format(*colour)
    return f'<td style="background:{paint};color:{ink}">{escape(text)}</td>'


def shade(value: float) -> tuple[int, int, int]:
    """Return the colour of a weight, white at 0 to dark blue at 1.

    Parameters
    ----------
    value : float
        Values outside 0 to 1 get the colour of the nearer end.

    Returns
    -------
    (int, int, int)
        Red, green and blue, 0 to 255.

    See Also
    --------
    matplotlib.colormaps : holds the original, "Blues".
    """
    place = min(max(value, 0.0), 1.0) * (len(BLUES) - 1)
    low = min(int(place), len(BLUES) - 2)
    part = place - low
    return tuple(
        round(one + (other - one) * part)
        for one, other in zip(BLUES[low], BLUES[low + 1], strict=True)
    )


def luminance(colour: tuple[int, int, int]) -> float:
    """Return the relative luminance of a colour, as the contrast rules of WCAG 2 define it.

    Parameters
    ----------
    colour : (int, int, int)
        Red, green and blue, 0 to 255.

    Returns
    -------
    float
        0 for black to 1 for white.

    See Also
    --------
    shade : gives colours.
    """
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (one / 255 for one in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
