"""The checks of lesson 10: one real attention layer."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.display.table import load_rows
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Right, Wrong, numbers, table, tensor, tokens_of
from attnlab.exercises.frame.forms import Compared, Either, Found, Value
from attnlab.exercises.lesson_05 import trained_layer
from attnlab.models.pretrained import FIRST, LAST, load_layer

HEADS, HEAD_DIM = 12, 32
SENTENCES = ("the cat chased the mouse", "she sat on the bank of the river")

# --- a third word ---------------------------------------------------------------------------------

ANIMAL, STREET, ANIMAL_AFTER = 0.12, 0.08, 0.09
STREET_AFTER = STREET * ANIMAL_AFTER / ANIMAL


@Value(
    right=STREET_AFTER,
    near=lambda weight, slip: abs(weight - slip) < 5e-4,  # three decimals
    slips={
        "The score for “street” stays the same, but the row must still sum to 1, so all weights "
        "share the change.": STREET,
        "The two weights do not lose the same amount. What stays the same if both scores do?": (
            STREET - ANIMAL + ANIMAL_AFTER
        ),
        "“street” does not get what “animal” lost, because the new word took weight from both.": (
            STREET + ANIMAL - ANIMAL_AFTER
        ),
        "The new word took weight from “animal” and from “street”. The weight that “animal” lost "
        "was not shared out among the others.": STREET * (1 - ANIMAL_AFTER) / (1 - ANIMAL),
    },
    verified="The ratio of the two weights stays the same, because neither score changes.",
    otherwise="Both scores are as before. Write both weights with e to the power of their scores, "
    "and divide one by the other.",
)
def check_third_word(_weight: float) -> None:
    """Check what a weight becomes if a third word is replaced, in a first layer.

    Verified: the number, within 0.0005.

    Parameters
    ----------
    answer
        The number, or a function without arguments that returns it.

    See Also
    --------
    torch.softmax : the ratio of two weights depends on their two scores alone.
    """


# --- what a sink gets -----------------------------------------------------------------------------

PADDED = 12  # tokens, padding included


def of_words(weights: Tensor, rows: slice) -> Tensor:
    """Return what the first key gets in some rows, on average, (12,)."""
    return weights[:, rows, 0].mean(dim=-1)


@Compared(
    right=lambda weights, n: n * of_words(weights, slice(1, n - 1)),
    slips={
        "One uniform share is 1 / n, because padding gets no weight. Take the mean over the n - 2 "
        "words, and multiply it by n.": Either(
            lambda weights, n: of_words(weights, slice(1, n - 1)),
            lambda weights, n: weights.shape[-1] * of_words(weights, slice(1, n - 1)),
            lambda weights, n: (n - 2) * of_words(weights, slice(1, n - 1)),
        ),
        "Your means leave out the last word. The words are tokens 1 to n - 2, and a slice ends "
        "before its second number.": lambda weights, n: n * of_words(weights, slice(1, n - 2)),
        "Your means include padding or markers. Only tokens 1 to n - 2 are words.": Either(
            lambda weights, n: n * of_words(weights, slice(1, -1)),
            lambda weights, n: n * of_words(weights, slice(None)),
            lambda weights, n: n * of_words(weights, slice(n)),
            lambda weights, n: n * of_words(weights, slice(n - 1)),
            lambda weights, n: n * of_words(weights, slice(1, n)),
        ),
        "Your numbers are n - 2 times too large. Take the mean over the words, not the sum.": (
            lambda weights, n: n * (n - 2) * of_words(weights, slice(1, n - 1))
        ),
        "Your function reads a row of the weights, but the task asks for a column. Axis 1 holds "
        "the queries, and axis 2 holds the keys.": (
            lambda weights, n: n * of_words(weights.mT, slice(1, n - 1))
        ),
    },
    what="uniform shares",
    read=lambda value: numbers(value, (HEADS,), "12 numbers, one for each head"),
    otherwise="Which rows and which key count, and how large is one uniform share?",
    verified="You used only the rows of words and counted in uniform shares. The numbers are "
    "correct for both test sentences.",
    axes=("head",),
    atol=1e-3,
    rtol=0.0,
    keeps_inputs=True,
)
def check_sink_share() -> Iterator[tuple[str, tuple]]:
    """Check a function that measures the uniform shares of the first token, per head.

    Verified: the shares for the weights of two padded sentences of the trained layer.

    Parameters
    ----------
    answer
        A function of weights (12, S, S) and the number of tokens that returns 12 numbers.

    See Also
    --------
    attnlab.models.pretrained.PretrainedLayer.read : gives such weights, without padding.
    """
    layer = trained_layer()
    for text in SENTENCES:
        tokens = layer.tokens(text)
        n = len(tokens)
        padded = layer.embed([*tokens, *["[PAD]"] * (PADDED - n)])
        may_attend = (torch.arange(PADDED) < n).expand(PADDED, PADDED)
        weights = layer.attention(padded, attn_mask=may_attend).weights[0]
        yield f"the weights of “{text}”, padded to {PADDED} tokens", (weights, n)


# --- a layer without a head -----------------------------------------------------------------------


def part_of(head: int) -> slice:
    """Return the features of a head."""
    return slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)


def without(text: str, head: int) -> Tensor:
    """Return the output without what one head adds to it."""
    reading, attention = trained_layer().read(text), trained_layer().attention
    mixed = reading.weights[head] @ attention.v_proj(reading.embedded)[:, part_of(head)]
    return reading.output - mixed @ attention.out_proj.weight[:, part_of(head)].T


def bias_of(head: int) -> Tensor:
    """Return what the bias of the values of one head adds to every output."""
    attention = trained_layer().attention
    return attention.out_proj.weight[:, part_of(head)] @ attention.v_proj.bias[part_of(head)]


def without_rows(text: str, head: int, bias: int = 1) -> Tensor:
    """Return the output for a last matrix that lacks the rows of a head, with or without bias."""
    output = trained_layer().read(text).output.clone()
    output[:, part_of(head)] = bias * trained_layer().attention.out_proj.bias[part_of(head)]
    return output


def output_of(value: object) -> Tensor:
    """Read the output of a layer, (L, 384)."""
    value = tensor(value).float()
    return value[0] if value.ndim == 3 and len(value) == 1 else value


@Compared(
    right=lambda _layer, text, head: without(text, head),
    slips={
        "This is the output of all heads together.": (
            lambda _layer, text, head: trained_layer().read(text).output
        ),
        "The head's values have a bias, and it is still in the output. Remove it as well.": (
            lambda _layer, text, head: without(text, head) + bias_of(head)
        ),
        "The bias of out_proj is missing from your output.": (
            lambda _layer, text, head: without(text, head) - trained_layer().attention.out_proj.bias
        ),
        "This is what the head adds. Return the output without it.": (
            lambda _layer, text, head: trained_layer().read(text).output - without(text, head)
        ),
        "The rows of out_proj.weight belong to features of the output. The features of a head "
        "belong to columns.": Either(
            lambda _layer, text, head: without_rows(text, head),
            lambda _layer, text, head: without_rows(text, head, bias=0),
        ),
    },
    read=output_of,
    otherwise="Which 32 columns of out_proj.weight read this head? Heads are counted from 0.",
    verified="Only this head is missing from the output, and the layer is unchanged.",
    axes=("token", "feature"),
    atol=1e-4,
    rtol=0.0,
)
def check_mended_ablation() -> Iterator[tuple[str, tuple]]:
    """Check a function that computes the output of the trained layer without one head.

    Verified: the outputs for two sentences, for three heads one after the other, and that the given
    layer stays as it was.

    Parameters
    ----------
    answer
        A function of (layer, text, head) that returns the output (L, 384).

    See Also
    --------
    attnlab.models.pretrained.load_layer : the layer.
    """
    layer = load_layer()
    layer.read(SENTENCES[0])  # torch's first call takes seconds, for which no answer should pay
    before = {name: numbers.clone() for name, numbers in layer.state_dict().items()}
    for text, head in ((SENTENCES[0], 4), (SENTENCES[1], 0), (SENTENCES[0], 11)):
        yield f"“{text}” and head {head}", (layer, text, head)
        if any(not now.equal(before[name]) for name, now in layer.state_dict().items()):
            raise Wrong(
                "Your function changes the layer that it is given, so the head is missing in "
                "every later call. Change a copy, or undo the change afterwards."
            )


# --- an ambiguous word ----------------------------------------------------------------------------

ASKERS, FIRSTS = 5000, 100
WANTED = "a word and two examples, (word, (sentence, clue, head), (sentence, clue, head))"
Example = tuple[str, str, int]


@Found(read=lambda value: word_and_examples(value))
def check_own_word(answer: tuple[str, list[Example]]) -> Right:
    """Check an ambiguous word that the learner has found, in two sentences.

    Verified: the word and both clues are single tokens of their sentence, the word is none of the
    lesson's, the sentences and the clues differ, and in the given head it gives the clue at least
    one uniform share and twice the median of the lesson's askers, and fewer than 100 of these give
    more. Not verified: that the word has two meanings.

    Parameters
    ----------
    answer
        A function without arguments that returns a word and two (sentence, clue, head).

    See Also
    --------
    attnlab.explorers.RealHeadsExplorer : to look for one.
    """
    word, examples = answer
    if word in words_of_lesson() | {FIRST, LAST}:
        raise Wrong(
            f"“{word}” is one of the lesson's words. Find a word that the lesson does not use."
        )
    (sentence, first, _), (other, second, _) = examples
    if sentence == other:
        raise Wrong("Both examples have the same sentence. Find one sentence for each meaning.")
    if first == second:
        raise Wrong(f"Both sentences have the clue “{first}”. Where is the other meaning?")
    rows = {
        f"{clue}, head {head}": shares_and_askers_ahead(word, sentence, clue, head)
        for sentence, clue, head in examples
    }
    columns = [f"“{word}” asks", "median of the askers", "askers ahead"]
    evidence = table("Uniform shares of the clue:", rows, columns)
    for (_, clue, head), (own, median, ahead) in zip(examples, rows.values(), strict=True):
        if own < 1 or ahead >= FIRSTS:
            raise Wrong(
                f"In head {head}, “{word}” gives “{clue}” {own:.2f} uniform shares, and {ahead:,} "
                "of the askers give it more in the same place. The clue must get at least 1 share, "
                f"and fewer than {FIRSTS} askers may give it more.",
                evidence,
            )
        if own < 2 * median:
            raise Wrong(
                f"In head {head}, “{clue}” gets much from any asker: half of them give it at least "
                f"{median:.2f} uniform shares, and “{word}” gives it {own:.2f}. Your word must "
                "give it at least twice the median.",
                evidence,
            )
    return Right(
        f"In both sentences, “{word}” is among the first {FIRSTS} askers. Whether it has two "
        "meanings is for you to judge, because a word with a single meaning can pass as well.",
        evidence,
    )


def word_and_examples(value: object) -> tuple[str, list[Example]]:
    """Read a word and two examples."""
    match value:
        case (str(word), (str(), str(), _) as first, (str(), str(), _) as second):
            examples = [(said, clue.lower(), head_of(head)) for said, clue, head in (first, second)]
        case _:
            raise Wrong(voice.returned(voice.kind_of(value), WANTED))
    return word.lower(), examples


def head_of(number: object) -> int:
    """Read the number of a head, which may come from a tensor or a NumPy array."""
    try:
        head = -1 if isinstance(number, bool) else operator.index(number)
    except TypeError:
        head = -1
    if head not in range(HEADS):
        raise Wrong(f"A head must be an int from 0 to {HEADS - 1}.")
    return head


def words_of_lesson() -> set[str]:
    """Return the ambiguous words of the lesson, which are no askers."""
    return {row["word"] for row in load_rows("ambiguous_words.csv")}


def shares_and_askers_ahead(word: str, sentence: str, clue: str, head: int) -> list[float | int]:
    """Return what the clue gets from the word and from the median asker, and the askers ahead."""
    layer, tokens = trained_layer(), tokens_of(trained_layer(), sentence)
    if clue == word:
        raise Wrong(f"“{clue}” is your word itself. Its clue must be another word of the sentence.")
    if clue in (FIRST.lower(), LAST.lower()):
        raise Wrong("A marker is no clue. Choose a word of the sentence.")
    for needed in (word, clue):
        if tokens.count(needed) != 1:
            raise Wrong(
                f"“{needed}” must occur exactly once in “{sentence}”, and as a single token. The "
                f"tokens are {', '.join(tokens)}."
            )
    common = [asker for asker in layer.common_words(ASKERS) if asker not in words_of_lesson()]
    rows = layer.attend_as([word, *common], tokens, tokens.index(word))[head]  # (1 + A, L)
    own, *others = (rows[:, tokens.index(clue)] * len(tokens)).tolist()
    return [own, statistics.median(others), sum(share > own for share in others)]
