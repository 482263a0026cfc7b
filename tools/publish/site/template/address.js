// The state of the explorers in the address of the page, so that a link shows what its sender saw.
//
// An entry of the address is "2.temperature=0.5": the number of an explorer on the page, a name and
// a value as JSON. There are entries for what differs from the page as it was written, those of the
// explorer that was moved last come first, and a link leads there. What makes no sense is ignored.

const ENTRY = /^([1-9]\d*)\.(\w+)$/;
const explorers = new Map();  // by number, the one moved last at the end

/** Return what an address says: for each number of an explorer its names and values. */
function readAddress() {
  const said = new Map();
  for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
    const [, number, name] = key.match(ENTRY) ?? [];
    if (!number) continue;
    try {
      said.set(number, [...(said.get(number) ?? []), [name, JSON.parse(text)]]);
    } catch { /* not a value */ }
  }
  return said;
}

/** Whether an explorer can show a value: one of its control's, or one that its module takes. */
function canShow(explorer, data, name, value) {
  const control = data.controls.find((one) => one.name === name);
  try {
    return control ? control.values.some((one) => isSame(one, value))
      : data.state.includes(name) && Boolean(explorer.fits?.[name]?.(value, data));
  } catch {
    return false;
  }
}

function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Return the address of the page with these entries, or else of a place on it. */
function addressOf(entries, place = "") {
  return `${location.href.split("#")[0]}#${String(new URLSearchParams(entries)) || place}`;
}

/** Return a link to what one explorer shows. */
function linkTo(number) {
  return addressOf(explorers.get(number).entries(), `explorer-${number}`);
}

function writeAddress() {
  const all = [...explorers.values()].reverse().flatMap(({ entries }) => entries());
  history.replaceState(null, "", addressOf(all));
}

const asked = readAddress();
let writing;

document.addEventListener("attnlab:start", ({ target, detail: { explorer, stored, get } }) => {
  const number = String([...document.querySelectorAll(".attnlab-explorer")].indexOf(target) + 1);
  const { state, data } = stored, before = { ...state };
  const wanted = (asked.get(number) ?? [])
    .filter(([name, value]) => canShow(explorer, data, name, value));
  Object.assign(state, Object.fromEntries(wanted));
  stored.opened = wanted.length > 0;  // who follows a link sees what its sender saw
  const entries = () => data.state.filter((name) => !isSame(get(name), before[name]))
    .map((name) => [`${number}.${name}`, JSON.stringify(get(name))]);
  const shown = { target, opened: stored.opened, entries };
  target.id = `explorer-${number}`;
  explorers.set(number, shown);
  target.addEventListener("attnlab:moved", () => {
    explorers.delete(number);
    explorers.set(number, shown);
    clearTimeout(writing);
    writing = setTimeout(writeAddress, 300);  // browsers refuse to change it too often
  });
});

addEventListener("load", () => {
  const first = [...asked.keys()].find((number) => explorers.get(number)?.opened);
  explorers.get(first)?.target.scrollIntoView();
});

// the address of a link to this page, followed from this page
addEventListener("hashchange", () => { if (readAddress().size) location.reload(); });
