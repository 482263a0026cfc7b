"""A toy translator from English to French that sees the English words through attention only.

It was trained on sentences of a small grammar (``make_sentences``) by
``data/make_toy_translator.py``, so its maps can be compared with what each word should look at.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab.attention import trace_attention
from attnlab.checks import check_list, check_size, short
from attnlab.display.texts import check_text
from attnlab.models.store import load_model, load_tensors

DIM, LONGEST = 32, 9  # features of a word; English words of a sentence
START, END = "(start)", "."  # before the first French word, and after the last
ARTICLES = {"the": ("le", "la"), "a": ("un", "une")}  # masculine, feminine
NOUNS = {  # and whether the French one is feminine
    "cat": ("chat", False),
    "dog": ("chien", False),
    "boy": ("garçon", False),
    "horse": ("cheval", False),
    "book": ("livre", False),
    "girl": ("fille", True),
    "house": ("maison", True),
    "car": ("voiture", True),
    "cow": ("vache", True),
    "flower": ("fleur", True),
}
BEFORE = {"small": ("petit", "petite"), "big": ("grand", "grande"), "good": ("bon", "bonne")}
AFTER = {  # adjectives that follow the noun in French
    "black": ("noir", "noire"),
    "green": ("vert", "verte"),
    "blue": ("bleu", "bleue"),
    "white": ("blanc", "blanche"),
}
VERBS = {"sees": "voit", "wants": "veut", "likes": "aime", "finds": "trouve"}
FORMS = {**ARTICLES, **BEFORE, **AFTER}  # of the words that agree with a noun
ENGLISH = (*ARTICLES, *NOUNS, *BEFORE, *AFTER, *VERBS)
FRENCH = (
    START,
    END,
    *(form for forms in ARTICLES.values() for form in forms),
    *(noun for noun, _ in NOUNS.values()),
    *(form for forms in (*BEFORE.values(), *AFTER.values()) for form in forms),
    *VERBS.values(),
)
TRANSLATORS = 8  # stored ones


class Sentence(NamedTuple):
    """An English sentence, its translation, and which word is translated by which.

    Attributes
    ----------
    english : str
        Words of the grammar, such as ``a black cat sees the house``.
    french : str
        The translation, without a full stop.
    partner : Tensor, shape (L,)
        For each French word the position of the English word that it translates.
    """

    english: str
    french: str
    partner: Tensor


class Translation(NamedTuple):
    """What the translator wrote, and where it looked.

    Attributes
    ----------
    english : list of str
        The words that are looked at, S of them.
    french : list of str
        The words that it wrote, L of them; the last is the full stop, unless it wrote too much.
    weights : Tensor, shape (L, S)
        Row i holds the weights with which word i was written.
    """

    english: list[str]
    french: list[str]
    weights: Tensor


class Translator(nn.Module):
    """Writes French word by word; one cross-attention is all it sees of the English sentence.

    Attributes
    ----------
    words, places : torch.nn.Embedding
        The vector of an English word is the sum of one row of each.
    written : torch.nn.Embedding
        The vectors of the French words.
    memory : torch.nn.GRU
        Reads the French words written so far.
    query, key, value : torch.nn.Linear
        The query comes from the memory, key and value from an English word.
    next_word : torch.nn.Linear
        Scores of all French words, from the memory and the output of the attention.

    See Also
    --------
    torch.nn.TransformerDecoderLayer : a decoder of today, with attention in place of the memory.

    References
    ----------
    Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate", 2015.
    https://arxiv.org/abs/1409.0473
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(ENGLISH), DIM)
        self.places = nn.Embedding(LONGEST, DIM)
        self.written = nn.Embedding(len(FRENCH), DIM)
        self.memory = nn.GRU(DIM, DIM, batch_first=True)
        self.query, self.key, self.value = (nn.Linear(DIM, DIM) for _ in range(3))
        self.next_word = nn.Linear(2 * DIM, len(FRENCH))

    def _steps(
        self, english: Tensor, before: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the scores of all French words at each step, and the weights.

        ``english`` (N, S) holds places in ``ENGLISH``; ``before`` (N, L) those in ``FRENCH`` of the
        word before each word that is to be written. Scores (N, L, len(FRENCH)), weights (N, L, S).
        """
        x = self.words(english) + self.places.weight[: english.shape[1]]  # (N, S, DIM)
        state, _ = self.memory(self.written(before))  # (N, L, DIM)
        output, weights, _ = trace_attention(
            self.query(state), self.key(x), self.value(x), attn_mask=attn_mask
        )
        return self.next_word(torch.cat([state, output], dim=-1)), weights

    @torch.no_grad()
    def translate(
        self,
        english: str,
        *,
        french: str | None = None,
        hidden: Sequence[tuple[int, int]] = (),
    ) -> Translation:
        """Return the translation of a sentence, with the weights of every step.

        Parameters
        ----------
        english : str
            One to nine words of ``ENGLISH``.
        french : str, optional
            The correct translation. The word at each step then follows upon these words and not
            upon those that the translator wrote itself, so an error cannot spread.
        hidden : sequence of (int, int)
            Cells (row, column) of the map that are masked: when it writes this French word, the
            translator cannot look at this English word. One word of each row must stay.

        Returns
        -------
        Translation
            What it wrote, at least up to the full stop, and the weights.

        Raises
        ------
        TypeError, ValueError
            If a word is not in the grammar, there are too many words, or a hidden cell does not
            exist or leaves a row without a word to look at.

        See Also
        --------
        make_sentences : sentences that it can translate.
        """
        words = _known("english", english, ENGLISH)
        if len(words) > LONGEST:
            raise ValueError(f"english must have at most {LONGEST} words, got {len(words)}.")
        steps = 2 * LONGEST if french is None else len(_french_words(french)) + 1
        attn_mask = _may_look(hidden, steps, len(words))
        source = _numbers(words, ENGLISH)
        if french is not None:
            before = _numbers([START, *_french_words(french)], FRENCH)
            scores, weights = self._steps(source, before, attn_mask)
            places = scores[0, :, 1:].argmax(dim=-1) + 1  # START is never written
            return Translation(words, [FRENCH[place] for place in places], weights[0])
        written = [START]
        while len(written) <= steps and written[-1] != END:
            before = _numbers(written, FRENCH)
            scores, weights = self._steps(source, before, attn_mask[: len(written)])
            written.append(FRENCH[1 + scores[0, -1, 1:].argmax()])
        return Translation(words, written[1:], weights[0])


def load_translator(seed: int = 0, *, trained: bool = True) -> Translator:
    """Return a translator of ``data/toy_translator.safetensors``.

    Parameters
    ----------
    seed : int
        0 to 7: which of the eight translators. All were trained on the same sentences in the same
        order, and differ in the random numbers with which they started.
    trained : bool
        False for the translator as it started; only that of seed 0 is stored.

    Returns
    -------
    Translator
        In evaluation mode, its parameters without gradients. Every call makes a new one.

    Raises
    ------
    TypeError, ValueError
        If there is no such translator.

    See Also
    --------
    attnlab.models.pretrained.load_layer : a layer of a real model.

    Examples
    --------
    >>> load_translator().translate("the black cat sees a house").french
    ['le', 'chat', 'noir', 'voit', 'une', 'maison', '.']
    """
    seed = check_size("seed", seed, at_least=0, at_most=TRANSLATORS - 1 if trained else 0)
    start = f"{seed}." if trained else "untrained."
    stored = load_tensors("toy_translator.safetensors").items()
    own = {key.removeprefix(start): x.float() for key, x in stored if key.startswith(start)}
    return load_model(Translator, own)


def make_sentences(count: int, *, seed: int = 0) -> list[Sentence]:
    """Return random sentences of the grammar with their translations.

    Parameters
    ----------
    count : int
        How many.
    seed : int
        Of the random numbers; the same seed gives the same sentences.

    Returns
    -------
    list of Sentence
        Subject, verb and object; subject and object have an article, a noun, and at most one
        adjective of each kind.

    Raises
    ------
    TypeError, ValueError
        If ``count`` is not a positive integer, or ``seed`` is not an integer from 0 on.

    See Also
    --------
    Translator.translate : translates them.

    Examples
    --------
    >>> english, french, partner = make_sentences(1, seed=1)[0]
    >>> english, french
    ('the flower likes the white car', 'la fleur aime la voiture blanche')
    """
    count = check_size("count", count, at_least=1)
    seed = check_size("seed", seed, at_least=0)
    chance = random.Random(seed)
    return [_sentence(chance) for _ in range(count)]


def kinds_of_words(sentences: Sequence[Sentence]) -> list[str]:
    """Return, for each French word, which kind of word it is.

    Parameters
    ----------
    sentences : sequence of Sentence
        From ``make_sentences``.

    Returns
    -------
    list of str
        "la, une" for a feminine article, "le, un" for a masculine one, or "others"; one for each
        French word of all sentences, in order, without the full stops.

    Raises
    ------
    TypeError
        If ``sentences`` is no list.

    See Also
    --------
    make_sentences : makes them.
    """
    check_list("sentences", sentences, "a list of Sentence")
    kinds = {"la": "la, une", "une": "la, une", "le": "le, un", "un": "le, un"}
    return [kinds.get(word, "others") for pair in sentences for word in pair.french.split()]


def _sentence(chance: random.Random) -> Sentence:
    english, french, partner = [], [], []
    for part in ("subject", "object"):
        if part == "object":
            verb = chance.choice(list(VERBS))
            partner.append(len(english))
            english.append(verb)
            french.append(VERBS[verb])
        article, noun = chance.choice(list(ARTICLES)), chance.choice(list(NOUNS))
        before = [chance.choice(list(BEFORE))] if chance.random() < 0.3 else []
        after = [chance.choice(list(AFTER))] if chance.random() < 0.5 else []
        form = int(NOUNS[noun][1])
        first = len(english)
        order = [article, *before, *after, noun]
        for word in (article, *before, noun, *after):
            french.append(FORMS[word][form] if word in FORMS else NOUNS[word][0])
            partner.append(first + order.index(word))
        english += order
    return Sentence(" ".join(english), " ".join(french), torch.tensor(partner))


def _known(name: str, text: object, vocabulary: Sequence[str]) -> list[str]:
    check_text(name, text)
    words = text.split()
    for word in words:
        if word not in vocabulary:
            raise ValueError(
                f"{name} must have words of the toy grammar only, and {short(word)} is not one; "
                f"{__name__}.{'ENGLISH' if name == 'english' else 'FRENCH'} lists them."
            )
    return words


def _french_words(french: str) -> list[str]:
    """Return the words of a French text of the grammar, without its full stop."""
    words = _known("french", french, FRENCH[1:])
    return words[:-1] if words and words[-1] == END else words


def _numbers(words: Sequence[str], vocabulary: Sequence[str]) -> Tensor:
    return torch.tensor([[vocabulary.index(word) for word in words]])


def _may_look(hidden: object, rows: int, columns: int) -> Tensor:
    """Return a mask, True where a step may look at a word."""
    check_list("hidden", hidden, "a list of cells (row, column)")
    mask = torch.ones(rows, columns, dtype=torch.bool)
    for row, column in hidden:
        row = check_size("the row of a hidden cell", row, at_least=0, at_most=rows - 1)
        column = check_size("the column of a hidden cell", column, at_least=0, at_most=columns - 1)
        mask[row, column] = False
    if not mask.any(dim=-1).all():
        row = int((~mask.any(dim=-1)).nonzero()[0])
        raise ValueError(f"hidden must leave every row a word to look at, and row {row} has none.")
    return mask
