// Sentences of one's own, read by the page itself. The trained model lies in scripts in the folder
// model, which are loaded when a sentence needs them; each calls keepPart.

const LETTERS_OF_NUMBERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES = new Uint8Array(128);  // of a letter, by its code
[...LETTERS_OF_NUMBERS].forEach((letter, value) => { VALUES[letter.charCodeAt()] = value; });
const LAYERS = 6;
const WHOLE = ["meanings", ...[...Array(LAYERS).keys()].flatMap((i) => [`scores_${i}`, `layer_${i}`])];
const parts = {};
// The address may ask for a sentence before the scripts at the end of the page have run.
const pageIsRead = new Promise((done) => { addEventListener("DOMContentLoaded", done); });

/** Return a matrix of tools/_site_model.py as one list of numbers, row after row. */
function unpacked({ steps, letters }) {
  const count = letters.length / 2, size = count / steps.length, table = new Float32Array(count);
  for (let i = 0; i < count; i += 1) {
    const code = 64 * VALUES[letters.charCodeAt(2 * i)] + VALUES[letters.charCodeAt(2 * i + 1)];
    table[i] = (code - 2047) * steps[Math.floor(i / size)];
  }
  return table;
}

/** Return a part of the model with its matrices unpacked. */
function unpackedAll(value) {
  if (value?.letters) return unpacked(value);
  if (value?.constructor !== Object) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, unpackedAll(one)]));
}

/** Keep a part of the model; the file that holds it calls this. */
function keepPart(name, part) {
  parts[name] = unpackedAll(part);
}

/** Return parts of the model; those that are not there yet are loaded, and `tell` says so. */
async function partsOf(names, tell) {
  const missing = names.filter((name) => !parts[name]);
  let loaded = 0;
  await pageIsRead;
  await Promise.all(missing.map(async (name) => {
    try {
      await load(`model/${name}.js`);
    } catch {
      throw new Error(`This needs the file model/${name}.js, which is not beside this page.`);
    }
    loaded += 1;
    tell(`The model is being loaded: ${loaded} of ${missing.length} files have arrived.`);
  }));
  return names.map((name) => parts[name]);
}

/** Return what a text is made of, with the vectors of its tokens, and load further parts with them. */
async function embed(text, further, tell) {
  const [start] = await partsOf(["start"], tell);
  const { pieces, longest, in_a_script: inOne, places, norm, code } = start;
  start.numbers ??= new Map(pieces.map((piece, number) => [piece, number]));
  const tokens = tokensOf(text, start.numbers), count = tokens.length - 2, size = norm.bias.length;
  if (!count) throw new Error("Type a sentence with at least one word.");
  if (tokens.length > longest) {
    throw new Error(`This sentence has ${count} word pieces, but only ${longest - 2} fit side by side. `
      + "Please shorten it.");
  }
  const numbers = tokens.map((token) => start.numbers.get(token));
  const names = numbers.map((number) => `words_${Math.floor(number / inOne)}`);
  await partsOf([...new Set([...names, ...further])], tell);
  const words = numbers.map((number, i) => rowOf(parts[names[i]].vectors, number % inOne, size));
  const vectors = words.map((word, i) => layerNorm(sumOf(word, places[i]), norm));
  return { sentence: text.trim().split(/\s+/).join(" "), tokens, vectors, code };
}

function rowOf(table, row, size) {
  return table.subarray(row * size, (row + 1) * size);
}

/** The lines of PyTorch that read a sentence. */
function linesFor(lines, sentence, tokens) {
  return lines.replaceAll("{length}", tokens.length)
    .replace("'{sentence}'", () => JSON.stringify(sentence));
}

function cosine(a, b) {
  const [ab, aa, bb] = [[a, b], [a, a], [b, b]].map(([one, other]) =>
    one.reduce((sum, value, i) => sum + value * other[i], 0));
  return ab / Math.sqrt(aa * bb);
}

/** Return the means of both meanings, layer by layer, without a sentence that is among them. */
function meansWithout(sentence, vectors, { means, sentences }) {
  const size = vectors[0].length, sides = Object.values(sentences);
  const own = Object.hasOwn(sentences, sentence) ? sentences[sentence] : null;
  return [0, 1].map((side) => vectors.map((vector, layer) => {
    const mean = rowOf(means, side * vectors.length + layer, size);
    const count = sides.filter((one) => one === side).length;
    return own !== side ? mean : mean.map((value, i) => (count * value - vector[i]) / (count - 1));
  }));
}

/** Where a word lies in each layer: how far it leans to its first meaning, and both means do. */
function meaningOf(sentence, vectors, known) {
  const means = meansWithout(sentence, vectors, known);
  const curves = [vectors, ...means].map((points) => points.map((point, layer) =>
    cosine(point, means[0][layer]) - cosine(point, means[1][layer])));
  return { names: known.names, curves };
}

/** Return what LayersExplorer shows of a sentence: all weights in percent, and where words lie. */
function layersOf({ sentence, tokens, vectors: first, code }) {
  const vectors = [first], maps = [];
  for (let number = 0; number < LAYERS; number += 1) {
    const layer = { ...parts[`scores_${number}`], ...parts[`layer_${number}`] };
    const read = encoderLayer(vectors[number], layer);
    const mean = read.weights[0].map((row, i) => row.map((_, j) =>
      read.weights.reduce((sum, head) => sum + head[i][j], 0) / read.weights.length));
    maps.push([mean, ...read.weights].map((map) =>
      map.map((row) => row.map((weight) => Math.round(100 * weight)))));
    vectors.push(read.vectors);
  }
  const known = tokens.flatMap((token, i) => (Object.hasOwn(parts.meanings, token)
    ? [[i, meaningOf(sentence, vectors.map((layer) => layer[i]), parts.meanings[token])]] : []));
  return { sentence, tokens, maps, known: Object.fromEntries(known),
    code: linesFor(code.layers, sentence, tokens) };
}

/** Return what RealHeadsExplorer shows of a sentence: the weights of the first layer. */
function headsOf({ sentence, tokens, vectors, code }) {
  const { query, key } = parts.scores_0;
  const weights = attentionWeights(linear(vectors, query), linear(vectors, key));
  return { sentence, tokens, weights, code: linesFor(code.real_heads, sentence, tokens) };
}

// The explorers ask here: a note for their readers, and what reads a text.
globalThis.attnlabReaders = {
  real_heads: {
    note: "Your own sentences are read in this browser; the first one loads about 4 MB.",
    read: async (text, tell) => headsOf(await embed(text, ["scores_0"], tell)),
  },
  layers: {
    note: "Your own sentences are read in this browser; the first one loads about 25 MB.",
    read: async (text, tell) => layersOf(await embed(text, WHOLE, tell)),
  },
};
