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

/** The scores of vectors with each other. */
export function scoresOf(vectors) {
  const root = Math.sqrt(vectors[0].length);
  return vectors.map((query) => vectors.map((key) => dot(query, key) / root));
}

/** Which query may attend to which key: n lists of n values, true = may attend. */
export function allowedCells({ mask, padding, toggled }, n) {
  const causal = ["causal", "both"].includes(mask), hides = ["padding", "both"].includes(mask);
  const allowed = (query, key) => {
    const flipped = toggled.some(([i, j]) => i === query && j === key);
    return ((!causal || key <= query) && (!hides || key >= padding)) !== flipped;
  };
  const positions = Array.from({ length: n }, (_, i) => i);
  return positions.map((query) => positions.map((key) => allowed(query, key)));
}

/** The weights of one query whose blocked cells are filled by a rule. */
export function blockedRow(scores, allowed, fill) {
  if (["0 after", "divide again"].includes(fill)) {
    const kept = softmax(scores).map((weight, key) => (allowed[key] ? weight : 0));
    const total = fill === "0 after" ? 1 : kept.reduce((sum, weight) => sum + weight, 0);
    return kept.map((weight) => weight / total);
  }
  const blocked = { "-1e9": -1e9, "0": 0 }[fill] ?? -Infinity;
  const weights = softmax(scores.map((score, key) => (allowed[key] ? score : blocked)));
  return fill === "-inf and 0" ? weights.map((weight, key) => (allowed[key] ? weight : 0)) : weights;
}

/**
 * The norm of the derivative of each output by each vector, where every vector is query, key and
 * value. One NaN among the weights makes all of it NaN, as one backward pass does.
 */
export function influenceMap(vectors, allowed, fill) {
  const scores = scoresOf(vectors), root = Math.sqrt(vectors[0].length);
  const weights = scores.map((row, i) => blockedRow(row, allowed[i], fill));
  if (weights.flat().some(Number.isNaN)) return weights.map((row) => row.map(() => NaN));
  return vectors.map((query, i) => {
    const slopes = slopesOf(scores[i], weights[i], allowed[i], fill);
    // how the output moves with score j; and how all scores move with the query
    const byScore = vectors.map((_, j) => sumOf(vectors.map((value, k) => scaled(value, slopes[k][j]))));
    return vectors.map((_, j) => Math.hypot(...query.flatMap((_, e) => query.map((_, f) => {
      const asKey = byScore[j][e] * query[f];
      const asQuery = i === j ? byScore.reduce((sum, move, m) => sum + move[e] * vectors[m][f], 0) : 0;
      return (asKey + asQuery) / root + (e === f ? weights[i][j] : 0);
    }))));
  });
}

/** The derivative of each weight of a row by each score. */
function slopesOf(scores, weights, allowed, fill) {
  const after = fill === "0 after", shares = after ? softmax(scores) : weights;
  const moves = (k, m) => (after ? allowed[k] : allowed[m]);
  return shares.map((share, k) => shares.map((other, m) =>
    (moves(k, m) ? share * ((k === m ? 1 : 0) - other) : 0)));
}

const scaled = (vector, factor) => vector.map((value) => factor * value);
const sumOf = (all) => all.reduce((sum, vector) => sum.map((value, e) => value + vector[e]));
