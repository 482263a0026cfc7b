// All the mathematics that the browser does. It gives what torch gives, NaN included, and a test
// compares the two; everything else that explorers show is computed by torch and sent as data.

/** Whether a value is the place of something in a list. */
export function isPlace(value, { length }) {
  return Number.isInteger(value) && value >= 0 && value < length;
}

/** Whether a value is a number from -limit to limit. */
export function isWithin(value, limit) {
  return typeof value === "number" && Math.abs(value) <= limit;
}

/** The sum of the products of two lists of numbers. */
export function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

/** The softmax of a list of scores: NaN throughout if no score is above -Infinity, as in torch. */
export function softmax(scores) {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** Which query may attend to which key: n lists of n values, true = may attend. */
export function allowedCells({ mask, window, padding, toggled }, n) {
  const allowed = (query, key) => {
    const causal = mask === "none" || key <= query;
    const near = mask !== "window" || query - key < window;
    const flipped = toggled.some(([i, j]) => i === query && j === key);
    return (causal && near && !padding.includes(key)) !== flipped;
  };
  const positions = Array.from({ length: n }, (_, i) => i);
  return positions.map((query) => positions.map((key) => allowed(query, key)));
}

/** The row of one query: what goes into the softmax, what comes out, and the weights. */
export function maskedRow(scores, allowed, fill) {
  const blocked = { "-1e9": -1e9, "0": 0 }[fill] ?? -Infinity;
  const into = scores.map((score, key) => (allowed[key] || fill === "0 after" ? score : blocked));
  const out = softmax(into), noKey = fill === "attnlab" && !allowed.includes(true);
  const erased = (key) => noKey || (fill === "0 after" && !allowed[key]);
  return { into, out, weights: out.map((weight, key) => (erased(key) ? 0 : weight)) };
}
