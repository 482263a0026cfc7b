// The trained encoder of lessons 5, 10 and 14, in plain numbers. A sentence is a list of vectors.

const HEADS = 12;

function sumOf(a, b) {
  return a.map((value, i) => value + b[i]);
}

function softmax(scores) {
  const most = Math.max(...scores), powers = scores.map((score) => Math.exp(score - most));
  const total = powers.reduce((sum, power) => sum + power);
  return powers.map((power) => power / total);
}

/** Mean 0 and variance 1 for the numbers of a vector, then a weight and a bias for each. */
function layerNorm(vector, { weight, bias }) {
  const size = vector.length, mean = vector.reduce((sum, value) => sum + value) / size;
  const variance = vector.reduce((sum, value) => sum + (value - mean) ** 2, 0) / size;
  const scale = 1 / Math.sqrt(variance + 1e-12);
  return vector.map((value, i) => (value - mean) * scale * weight[i] + bias[i]);
}

/** A matrix times each vector, plus a bias. The matrix is one list, row after row. */
function linear(vectors, { weight, bias }) {
  return vectors.map((vector) => bias.map((start, row) => {
    const size = vector.length, first = row * size;
    let sum = start;
    for (let i = 0; i < size; i += 1) sum += weight[first + i] * vector[i];
    return sum;
  }));
}

/** x times the share of a normal distribution below x, to seven digits (Abramowitz, Stegun 7.1.26). */
function gelu(x) {
  const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741
    + t * (-1.453152027 + t * 1.061405429))));
  const beyond = 0.5 * series * Math.exp(-z * z);  // the share beyond |x| on one side
  return x * (x > 0 ? 1 - beyond : beyond);
}

/** For each head and each token: how it divides its attention among all tokens. */
function attentionWeights(queries, keys) {
  const size = queries[0].length / HEADS;
  const score = (query, key, start) => {
    let sum = 0;
    for (let i = start; i < start + size; i += 1) sum += query[i] * key[i];
    return sum / Math.sqrt(size);
  };
  return Array.from({ length: HEADS }, (_, head) => queries.map((query) =>
    softmax(keys.map((key) => score(query, key, head * size)))));
}

/** For each token: the values of all tokens, mixed by its weights, head beside head. */
function mixed(weights, values) {
  const size = values[0].length / HEADS;
  return values.map((_, token) => values[0].map((_, i) => {
    const row = weights[Math.floor(i / size)][token];
    return values.reduce((sum, value, j) => sum + row[j] * value[i], 0);
  }));
}

/** Vectors and weights of one layer: attention and a feed-forward part, each added to its input. */
function encoderLayer(vectors, layer) {
  const weights = attentionWeights(linear(vectors, layer.query), linear(vectors, layer.key));
  const attended = linear(mixed(weights, linear(vectors, layer.value)), layer.out);
  const between = vectors.map((x, i) => layerNorm(sumOf(x, attended[i]), layer.attention_norm));
  const hidden = linear(between, layer.expand).map((x) => x.map(gelu));
  const processed = linear(hidden, layer.contract);
  return { weights,
    vectors: between.map((x, i) => layerNorm(sumOf(x, processed[i]), layer.output_norm)) };
}
