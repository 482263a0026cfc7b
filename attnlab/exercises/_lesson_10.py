"""Checks for the exercises of lesson 10: one real attention layer."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from attnlab.data import data_path
from attnlab.exercises._answers import Answer, Right, Wrong, article, judge, number, table, vector
from attnlab.exercises._verdict import Verdict
from attnlab.pretrained import FIRST, LAST, PretrainedLayer, load_layer

HEADS, HEAD_DIM = 12, 32
ANIMAL, STREET, ANIMAL_AFTER = 0.12, 0.08, 0.09
SENTENCES = ("the cat chased the mouse", "she sat on the bank of the river")
STRANGERS = ("chair", "book", "school")
MARGIN = 0.05
TOLERANCE = 1e-4


def check_third_word(answer: object) -> Verdict:
    """Check what a weight becomes if a third word is replaced, in a first layer.

    Verified: the number, within 0.0005.

    Parameters
    ----------
    answer : callable or float
        A function without arguments that returns the number, or the number.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    torch.softmax : the ratio of two weights depends on their two scores alone.
    """
    return judge(answer, _third_word)


def check_sink_share(answer: object) -> Verdict:
    """Check a function that measures what the first and the last token get, per head.

    Verified: the shares for the weights of two sentences of the trained layer.

    Parameters
    ----------
    answer : callable
        A function of weights (12, L, L) that returns 12 numbers.

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.pretrained.PretrainedLayer.read : gives such weights.
    """
    return judge(answer, _sink_share)


def check_mended_ablation(answer: object) -> Verdict:
    """Check a function that computes the output of the trained layer without one head.

    Verified: the outputs for two sentences, for three heads one after the other, and that the given
    layer stays as it was.

    Parameters
    ----------
    answer : callable
        A function of (layer, text, head) that returns the output (L, 384).

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.pretrained.load_layer : the layer.
    """
    return judge(answer, _ablation)


def check_own_word(answer: object) -> Verdict:
    """Check an ambiguous word of the learner's own, in two sentences.

    Verified: the word and both telling words are whole in the vocabulary, the word is none of the
    lesson's, in the named head it looks most at the telling word, and each of three other words in
    its place gives that word clearly less. Not verified: that the word has two meanings.

    Parameters
    ----------
    answer : callable
        A function without arguments that returns a word and two examples (sentence, telling, head).

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.explorers.RealHeadsExplorer : to look for one.
    """
    return judge(answer, _own_word)


# --- a third word ---------------------------------------------------------------------------------


def _third_word(answer: Answer) -> Right:
    said = answer.value(number)
    right = STREET * ANIMAL_AFTER / ANIMAL
    if abs(said - right) < 5e-4:
        return Right("The ratio of the two weights stays, since both scores stay.")
    if abs(said - STREET) < 5e-4:
        why = "The score for “street” stays, but the row must still sum to 1: all share the change."
    elif abs(said - (STREET - ANIMAL + ANIMAL_AFTER)) < 5e-4:
        why = "The weights do not lose the same amount. What stays, if both scores stay?"
    elif abs(said - (STREET + ANIMAL - ANIMAL_AFTER)) < 5e-4:
        why = "“street” does not get what “animal” lost: the new word took it from both."
    else:
        why = "Both scores are as before. Write the two weights as e to their scores, and divide."
    raise Wrong(f"{said:g} is not the weight. {why}")


# --- sinks ----------------------------------------------------------------------------------------


def _sink_share(answer: Answer) -> Right:
    for text in SENTENCES:
        weights = _layer().read(text).weights
        got = answer.ask(weights.clone(), read=_twelve, case=f"the weights of “{text}”")
        right = _shares(weights)
        if (got - right).abs().max() < TOLERANCE:
            continue
        rows = {"yours": got.tolist()[:4], "right": right.tolist()[:4]}
        evidence = table(f"“{text}”:", rows, [f"head {head}" for head in range(4)])
        raise Wrong(_why_share(weights, got), evidence)
    return Right("Rows of words only, both markers as keys: right for two sentences.")


def _shares(weights: Tensor) -> Tensor:
    return weights[:, 1:-1][:, :, [0, -1]].sum(dim=-1).mean(dim=-1).double()


def _why_share(weights: Tensor, got: Tensor) -> str:
    """Return what was done instead, if that can be told."""
    words = weights[:, 1:-1]
    slips = {
        "These are the means of all rows. Leave out the rows of [CLS] and [SEP] themselves.": (
            weights[:, :, [0, -1]].sum(dim=-1).mean(dim=-1)
        ),
        "This is [CLS] alone; [SEP] is the last key.": words[:, :, 0].mean(dim=-1),
        "This is [SEP] alone; [CLS] is the first key.": words[:, :, -1].mean(dim=-1),
        "These are the means of the two weights. Add them, then take the mean over the rows.": (
            words[:, :, [0, -1]].mean(dim=(-2, -1))
        ),
        "You added up columns: axis 1 holds the queries, axis 2 the keys.": (
            weights[:, [0, -1]][:, :, 1:-1].sum(dim=1).mean(dim=-1)
        ),
        "These are sums over the rows. Take their mean.": words[:, :, [0, -1]].sum(dim=(-2, -1)),
    }
    for sentence, slip in slips.items():
        if (got - slip).abs().max() < TOLERANCE:
            return sentence
    return "The shares are wrong. Which rows count, which keys, and what is a mean?"


def _twelve(value: object) -> Tensor:
    numbers = vector(value)
    if numbers.shape != (HEADS,):
        raise Wrong(
            f"One number per head is asked for, (12,), and it gives {tuple(numbers.shape)}."
        )
    return numbers


# --- a layer without a head -----------------------------------------------------------------------


def _ablation(answer: Answer) -> Right:
    layer = load_layer()
    layer.read(SENTENCES[0])  # torch's first call takes seconds, which no answer shall pay for
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    for text in SENTENCES:
        for head in (4, 0, 11):
            case = f"(layer, “{text}”, {head})"
            got = answer.ask(layer, text, head, read=_output, case=case)
            changed = [
                n for n, one in layer.state_dict().items() if not torch.equal(one, before[n])
            ]
            if changed:
                raise Wrong(
                    f"It changes the layer that it is given ({changed[0]}): the head is gone for "
                    "everybody who asks later. Change a copy, or take the part away afterwards."
                )
            _compare_outputs(got, text, head, case)
    return Right("The output lacks this head alone, and the layer stays as it was.")


def _compare_outputs(got: Tensor, text: str, head: int, case: str) -> None:
    reading = _layer().read(text)
    right = reading.output - _part(reading.embedded, reading.weights, head)
    if got.shape != right.shape:
        raise Wrong(f"For {case} the output must be {tuple(right.shape)}, got {tuple(got.shape)}.")
    if (got - right).abs().max() < TOLERANCE:
        return
    rows = {"yours": got[1, :4].tolist(), "without it": right[1, :4].tolist()}
    evidence = table("Token 1:", rows, [f"feature {i}" for i in range(4)])
    raise Wrong(f"For {case} the output is wrong. {_why_output(got, text, head)}", evidence)


def _why_output(got: Tensor, text: str, head: int) -> str:
    """Return what was done instead, if that can be told."""
    reading = _layer().read(text)
    if (got - reading.output).abs().max() < TOLERANCE:
        return "It is the output with all heads."
    others = [one for one in range(HEADS) if one != head]
    for other in others:
        part = _part(reading.embedded, reading.weights, other)
        if (got - (reading.output - part)).abs().max() < TOLERANCE:
            return f"It lacks head {other}: heads are counted from 0."
    rows = reading.output.clone()
    own = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
    rows[:, own] = _layer().attention.out_proj.bias[own]
    if (got - rows).abs().max() < TOLERANCE:
        return (
            "Rows of out_proj.weight are output features. The head's features come in as columns."
        )
    rows[:, own] = 0
    if (got - rows).abs().max() < TOLERANCE:
        return "Features of the output belong to no single head: out_proj has mixed the heads."
    return "Which 32 columns of out_proj.weight read this head?"


def _part(x: Tensor, weights: Tensor, head: int) -> Tensor:
    """Return what one head adds to the output: (L, 384)."""
    attention, own = _layer().attention, slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
    value = attention.v_proj(x)[:, own]
    return weights[head] @ value @ attention.out_proj.weight[:, own].T


def _output(value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise Wrong(f"It gives {article(type(value).__name__)}; the output is a tensor (L, 384).")
    value = value.detach().float()
    return value[0] if value.ndim == 3 and len(value) == 1 else value


# --- an ambiguous word of one's own ---------------------------------------------------------------


def _own_word(answer: Answer) -> Right:
    word, examples = answer.value(_word_and_examples)
    if word in _known():
        raise Wrong(f"“{word}” is one of the lesson's words. Find another one.")
    (_, first, _), (_, second, _) = examples
    if first == second:
        raise Wrong(f"Both sentences have the telling word “{first}”: where is the other meaning?")
    found = [_measured(word, *example) for example in examples]
    rows = {f"{telling}, head {head}": row for (_, telling, head), row in
            zip(examples, found, strict=True)}  # fmt: skip
    columns = [f"“{word}” asks", *(f"“{one}” asks" for one in STRANGERS)]
    for (_, telling, head), (own, *others) in zip(examples, found, strict=True):
        if max(others) > own - MARGIN:
            stranger = STRANGERS[others.index(max(others))]
            raise Wrong(
                f"In head {head} “{word}” gives “{telling}” {own:.2f}, “{stranger}” in its place "
                f"{max(others):.2f}, not {MARGIN} less: the head looks there for “{stranger}” too.",
                table("What the telling word gets:", rows, columns),
            )
    remarks = ("One head does it in both sentences.",) if examples[0][2] == examples[1][2] else ()
    return Right(
        f"In both sentences “{word}” looks most at the telling word, and three other words in its "
        "place look there less. Whether it has two meanings, you have to say.",
        table("What the telling word gets:", rows, columns),
        remarks,
    )


def _measured(word: str, sentence: str, telling: str, head: int) -> list[float]:
    """Return what the telling word gets from the word and from three others in its place."""
    tokens = _readable(sentence)
    for one in (word, telling):
        if tokens.count(one) != 1:
            raise Wrong(f"“{one}” must stand once, as a whole word, in “{sentence}”: got {tokens}.")
    asks, told = tokens.index(word), tokens.index(telling)
    row = _layer()(tokens).weights[0, head, asks]
    if row.argmax() != told:
        most = row.argmax().item()
        raise Wrong(
            f"In “{sentence}” head {head} looks most at {tokens[most]} ({row[most]:.2f}), not at "
            f"“{telling}” ({row[told]:.2f})."
        )
    swapped = [[*tokens[:asks], one, *tokens[asks + 1 :]] for one in STRANGERS]
    return [row[told].item()] + [_layer()(t).weights[0, head, asks, told].item() for t in swapped]


def _readable(sentence: str) -> list[str]:
    try:
        tokens, other = _layer().tokens(sentence), _layer().respelled(sentence)
    except (TypeError, ValueError) as error:
        raise Wrong(f"The layer cannot read “{sentence}”: {error}") from None
    if other:
        word, pieces = next(iter(other.items()))
        raise Wrong(
            f"“{word}” is spelled otherwise in the original ({' '.join(pieces)}): this layer has "
            "too few pieces for it. Take another word."
        )
    return tokens


Example = tuple[str, str, int]


def _word_and_examples(value: object) -> tuple[str, list[Example]]:
    wanted = "Return a word and two examples: (word, (sentence, telling, head), (sentence, ...))."
    if not isinstance(value, Sequence) or len(value) != 3 or not isinstance(value[0], str):
        raise Wrong(wanted)
    examples = []
    for example in value[1:]:
        if not isinstance(example, Sequence) or isinstance(example, str) or len(example) != 3:
            raise Wrong(wanted)
        sentence, telling, head = example
        if not isinstance(sentence, str) or not isinstance(telling, str):
            raise Wrong("Sentence and telling word must be texts.")
        if type(head) is not int or not 0 <= head < HEADS:
            raise Wrong("The head must be a whole number from 0 to 11.")
        examples.append((sentence, telling.lower(), head))
    return value[0].lower(), examples


# --- what all of them need ------------------------------------------------------------------------


@cache
def _layer() -> PretrainedLayer:
    """Return a layer that no answer gets hold of."""
    return load_layer()


@cache
def _known() -> set[str]:
    with data_path("ambiguous_words.csv").open(encoding="utf-8", newline="") as file:
        return {row["word"] for row in csv.DictReader(file)} | {FIRST, LAST}
