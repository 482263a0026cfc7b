// Word pieces of a sentence, as attnlab.pretrained makes them: the rules of BERT's tokenizer. Only
// signs and accents that came into Unicode after its tables were made are told apart otherwise.

const MARKER = /(\[(?:PAD|UNK|CLS|SEP|MASK)\])/;
const BLANK = /[\t\n\r\p{Z}]/gu, DROPPED = /[\p{Cc}\p{Cf}\p{Co}\ufffd]/gu, ACCENT = /\p{Mn}/gu;
const SIGN = /[\p{P}$+<=>^`|~]/gu;
const CHINESE = new RegExp("[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}"
  + "\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]", "gu");
const LONGEST_WORD = 100;  // letters; a longer one is not looked up

/** Return the words of a text in lower case without accents; each sign is a word of its own. */
function wordsOf(text) {
  const clean = text.replace(BLANK, " ").replace(DROPPED, "").replace(CHINESE, " $& ");
  const plain = clean.normalize("NFD").replace(ACCENT, "");
  const small = Array.from(plain, (letter) => letter.toLowerCase()).join("");
  return small.replace(SIGN, " $& ").split(" ").filter(Boolean);
}

/** Return the longest pieces that a word can be made of, from its beginning on. */
function spell(word, vocabulary) {
  const letters = [...word], pieces = [];
  if (letters.length > LONGEST_WORD) return ["[UNK]"];
  for (let start = 0, end; start < letters.length; start = end) {
    const pieceTo = (place) => (start ? "##" : "") + letters.slice(start, place).join("");
    for (end = letters.length; end > start && !vocabulary.has(pieceTo(end));) end -= 1;
    if (end === start) return ["[UNK]"];
    pieces.push(pieceTo(end));
  }
  return pieces;
}

/** Return the pieces of a text, between the two markers. */
function tokensOf(text, vocabulary) {
  const pieces = text.split(MARKER).flatMap((part) => (MARKER.test(part) ? [part]
    : wordsOf(part).flatMap((word) => spell(word, vocabulary))));
  return ["[CLS]", ...pieces, "[SEP]"];
}
