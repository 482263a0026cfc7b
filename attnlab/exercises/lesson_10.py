"""The checks of lesson 10: one real attention layer."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnlab.data import data_path
from attnlab.exercises._answers import Answer, Right, Wrong, article, table, vector
from attnlab.exercises._forms import Check, Compared, Value, same
from attnlab.exercises.lesson_05 import trained_layer
from attnlab.pretrained import FIRST, LAST, PretrainedLayer, load_layer

HEADS, HEAD_DIM = 12, 32
SENTENCES = ("the cat chased the mouse", "she sat on the bank of the river")

# --- a third word ---------------------------------------------------------------------------------

ANIMAL, STREET, ANIMAL_AFTER = 0.12, 0.08, 0.09
STREET_AFTER = STREET * ANIMAL_AFTER / ANIMAL


def close(one: float, other: float) -> bool:
    """Return whether two weights agree in three decimals."""
    return abs(one - other) < 5e-4


@Value(
    see="torch.softmax : the ratio of two weights depends on their two scores alone.",
    right=STREET_AFTER,
    near=close,
    slips={
        "The score for “street” stays, but the row must still sum to 1: all share the change.": (
            STREET
        ),
        "The weights do not lose the same amount. What stays, if both scores stay?": (
            STREET - ANIMAL + ANIMAL_AFTER
        ),
        "“street” does not get what “animal” lost: the new word took it from both.": (
            STREET + ANIMAL - ANIMAL_AFTER
        ),
    },
    verified="The ratio of the two weights stays, since both scores stay.",
    otherwise="Both scores are as before. Write the two weights as e to their scores, and divide.",
)
def check_third_word(weight: float) -> str:
    """Check what a weight becomes if a third word is replaced, in a first layer.

    Verified: the number, within 0.0005.
    """
    return "" if close(weight, STREET_AFTER) else f"{weight:g} is not the weight."


# --- what the markers get -------------------------------------------------------------------------


def twelve(value: object) -> Tensor:
    """Read one number per head."""
    numbers = vector(value)
    if numbers.shape != (HEADS,):
        got = tuple(numbers.shape)
        raise Wrong(f"One number per head is asked for, (12,), and it gives {got}.")
    return numbers


def of_markers(weights: Tensor) -> Tensor:
    """Return what the first and the last key get in the rows of the words, (12, L - 2, 2)."""
    return weights[:, 1:-1][:, :, [0, -1]]


@Compared(
    answer="A function of weights (12, L, L) that returns 12 numbers.",
    see="attnlab.pretrained.PretrainedLayer.read : gives such weights.",
    right=lambda weights: of_markers(weights).sum(dim=-1).mean(dim=-1),
    slips={
        "These are the means of all rows. Leave out the rows of [CLS] and [SEP] themselves.": (
            lambda weights: weights[:, :, [0, -1]].sum(dim=-1).mean(dim=-1)
        ),
        "This is [CLS] alone; [SEP] is the last key.": (
            lambda weights: of_markers(weights)[..., 0].mean(dim=-1)
        ),
        "This is [SEP] alone; [CLS] is the first key.": (
            lambda weights: of_markers(weights)[..., 1].mean(dim=-1)
        ),
        "These are the means of the two weights. Add them, then take the mean over the rows.": (
            lambda weights: of_markers(weights).mean(dim=(-2, -1))
        ),
        "You added up columns: axis 1 holds the queries, axis 2 the keys.": (
            lambda weights: of_markers(weights.mT).sum(dim=-1).mean(dim=-1)
        ),
        "These are sums over the rows. Take their mean.": (
            lambda weights: of_markers(weights).sum(dim=(-2, -1))
        ),
    },
    what="shares",
    read=twelve,
    otherwise="Which rows count, which keys, and what is a mean?",
    verified="Rows of words only, both markers as keys: the shares are correct for two sentences.",
    axes=("head",),
    atol=1e-4,
    rtol=0.0,
)
def check_sink_share() -> Iterator[tuple[str, tuple]]:
    """Check a function that measures what the first and the last token get, per head.

    Verified: the shares for the weights of two sentences of the trained layer.
    """
    for text in SENTENCES:
        yield f"the weights of “{text}”", (trained_layer().read(text).weights,)


# --- a layer without a head -----------------------------------------------------------------------


def part_of(head: int) -> slice:
    """Return the features of a head."""
    return slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)


def without(text: str, head: int) -> Tensor:
    """Return the output without what one head adds to it."""
    reading, attention = trained_layer().read(text), trained_layer().attention
    mixed = reading.weights[head] @ attention.v_proj(reading.embedded)[:, part_of(head)]
    return reading.output - mixed @ attention.out_proj.weight[:, part_of(head)].T


def overwritten(text: str, head: int, numbers: Tensor) -> Tensor:
    """Return the output with other numbers in some of its features."""
    output = trained_layer().read(text).output.clone()
    output[:, part_of(head)] = numbers[part_of(head)]
    return output


def output_of(value: object) -> Tensor:
    """Read the output of a layer, (L, 384)."""
    if not isinstance(value, Tensor):
        raise Wrong(f"It gives {article(type(value).__name__)}; the output is a tensor (L, 384).")
    value = value.detach().float()
    return value[0] if value.ndim == 3 and len(value) == 1 else value


def which_head(got: Tensor, _right: Tensor, _layer: PretrainedLayer, text: str, head: int) -> str:
    """Say which other head is missing, if one is."""
    for other in range(HEADS):
        if other != head and same(got, without(text, other), atol=1e-4):
            return f"It lacks head {other}: heads are counted from 0."
    return "Which 32 columns of out_proj.weight read this head?"


@Compared(
    answer="A function of (layer, text, head) that returns the output (L, 384).",
    see="attnlab.pretrained.load_layer : the layer.",
    right=lambda _layer, text, head: without(text, head),
    slips={
        "It is the output with all heads.": (
            lambda _layer, text, head: trained_layer().read(text).output
        ),
        "Rows of out_proj.weight are output features. The head's features come in as columns.": (
            lambda _layer, text, head: overwritten(
                text, head, trained_layer().attention.out_proj.bias
            )
        ),
        "Features of the output belong to no single head: out_proj has mixed the heads.": (
            lambda _layer, text, head: overwritten(text, head, torch.zeros(HEADS * HEAD_DIM))
        ),
    },
    read=output_of,
    otherwise=which_head,
    verified="The output lacks this head alone, and the layer stays as it was.",
    axes=("token", "feature"),
    atol=1e-4,
    rtol=0.0,
)
def check_mended_ablation() -> Iterator[tuple[str, tuple]]:
    """Check a function that computes the output of the trained layer without one head.

    Verified: the outputs for two sentences, for three heads one after the other, and that the given
    layer stays as it was.
    """
    layer = load_layer()
    layer.read(SENTENCES[0])  # torch's first call takes seconds, for which no answer should pay
    before = {name: numbers.clone() for name, numbers in layer.state_dict().items()}
    for text in SENTENCES:
        for head in (4, 0, 11):
            yield f"(layer, “{text}”, {head})", (layer, text, head)
            for name, numbers in layer.state_dict().items():
                if not torch.equal(numbers, before[name]):
                    raise Wrong(
                        f"It changes the layer that it is given ({name}), so the head is missing "
                        "in every later call. Change a copy, or undo the change afterwards."
                    )


# --- an ambiguous word ----------------------------------------------------------------------------

OTHERS = ("chair", "book", "school")
MARGIN = 0.05
WANTED = "Return a word and two examples: (word, (sentence, telling, head), (sentence, ...))."
Example = tuple[str, str, int]


@Check(
    answer="A function without arguments that returns a word and two (sentence, telling, head).",
    see="attnlab.explorers.RealHeadsExplorer : to look for one.",
)
def check_own_word(answer: Answer) -> Right:
    """Check an ambiguous word that the learner has found, in two sentences.

    Verified: the word and both telling words are whole in the vocabulary, the word is none of the
    lesson's, in the given head it attends most to the telling word, and each of three other words
    in its place gives that word clearly less. Not verified: that the word has two meanings.
    """
    word, examples = answer.value(word_and_examples)
    with data_path("ambiguous_words.csv").open(encoding="utf-8", newline="") as file:
        known = {row["word"] for row in csv.DictReader(file)} | {FIRST, LAST}
    if word in known:
        raise Wrong(f"“{word}” is one of the lesson's words. Find another one.")
    (_, first, _), (_, second, _) = examples
    if first == second:
        raise Wrong(f"Both sentences have the telling word “{first}”: where is the other meaning?")
    rows = {
        f"{telling}, head {head}": telling_weights(word, sentence, telling, head)
        for sentence, telling, head in examples
    }
    columns = [f"“{one}” asks" for one in (word, *OTHERS)]
    evidence = table("What the telling word gets:", rows, columns)
    for (_, telling, head), (own, *others) in zip(examples, rows.values(), strict=True):
        most, other = max(zip(others, OTHERS, strict=True))
        if most > own - MARGIN:
            raise Wrong(
                f"In head {head} “{word}” gives “{telling}” {own:.2f}, and “{other}” in the same "
                f"place gives it {most:.2f}, which is not {MARGIN} less: the head attends to "
                f"“{telling}” from “{other}” too.",
                evidence,
            )
    remarks = ("One head does it in both sentences.",) if examples[0][2] == examples[1][2] else ()
    return Right(
        f"In both sentences “{word}” attends most to the telling word, while “chair”, “book” and "
        "“school” in the same place give it less weight. Whether the word has two meanings is for "
        "you to judge.",
        evidence,
        remarks,
    )


def word_and_examples(value: object) -> tuple[str, list[Example]]:
    """Read a word and two examples."""
    if not isinstance(value, Sequence) or len(value) != 3 or not isinstance(value[0], str):
        raise Wrong(WANTED)
    examples = []
    for example in value[1:]:
        if not isinstance(example, Sequence) or isinstance(example, str) or len(example) != 3:
            raise Wrong(WANTED)
        sentence, telling, head = example
        if not isinstance(sentence, str) or not isinstance(telling, str):
            raise Wrong("The sentence and the telling word must be texts.")
        if type(head) is not int or not 0 <= head < HEADS:
            raise Wrong("The head must be a whole number from 0 to 11.")
        examples.append((sentence, telling.lower(), head))
    return value[0].lower(), examples


def telling_weights(word: str, sentence: str, telling: str, head: int) -> list[float]:
    """Return what the telling word gets from the word and from three others in its place."""
    tokens = tokens_of(sentence)
    for one in (word, telling):
        if tokens.count(one) != 1:
            raise Wrong(
                f"“{one}” must occur once, as a whole word, in “{sentence}”: its tokens are "
                f"{tokens}."
            )
    place, told = tokens.index(word), tokens.index(telling)
    weights = []
    for one in (word, *OTHERS):
        row = trained_layer()([*tokens[:place], one, *tokens[place + 1 :]]).weights[0, head, place]
        weights.append(float(row[told]))
        top = int(row.argmax())
        if one == word and top != told:
            raise Wrong(
                f"In “{sentence}” head {head} attends most to {tokens[top]} ({row[top]:.2f}), not "
                f"to “{telling}” ({row[told]:.2f})."
            )
    return weights


def tokens_of(sentence: str) -> list[str]:
    """Return the tokens of a sentence that the layer can read."""
    try:
        return trained_layer().tokens(sentence)
    except (TypeError, ValueError) as error:
        raise Wrong(f"The layer cannot read “{sentence}”: {error}") from None
