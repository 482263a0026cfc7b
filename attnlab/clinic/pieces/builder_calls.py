"""How a function that builds masks may be called: with sizes, tensors, lengths or tokens."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.clinic.pieces.behaviour import Form, fit, plain_name

N, HEADS, FEATURES, WINDOW = 3, 2, 11, 3
LENGTHS = ((2, 5, 3), (6, 1, 4, 3))
LONGEST = 7
QUERIES = (
    "l length size n t seqlen sz seqlength tgtlen querylen qlen lq nqueries numqueries seqlen "
    "sequencelength blocksize contextlength contextsize targetlen tq steps ntokens numtokens "
    "tgtsize maxlen maxseqlen rows dim"
)
KEYS = "s klen keylen srclen kvlen lk nkeys numkeys sourcelen tk m srcsize memorylen cols kvseqlen"
WINDOWS = "window windowsize w width radius span win windowlen bandwidth k"
COUNTS = (
    "lengths lens validlens validlengths seqlens seqlengths validlen sizes counts length "
    "srclengths srclens inputlengths xlens"
)
LONGEST_NAMES = (
    "maxlen maxlength maxseqlen maximum s size l t seqlen total numkeys paddedlen maxsize length"
)
TOKENS = (
    "ids tokens inputids tokenids seq src batch sequences sequence inputs input trg tgt x texts "
    "source target"
)
PADS = (
    "pad padid padidx padtoken padtokenid paddingidx paddingid paddingvalue srcpadidx trgpadidx "
    "tgtpadidx padvalue padindex"
)
TENSORS = "x scores query q input inputs embeddings hidden h attn weights"
FAMILY_WORDS = {
    "window": ("window", "sliding", "local", "band"),
    "causal": ("causal", "subsequent", "ahead", "future", "autoregressive", "tril", "triang"),
    "lengths": ("length", "lens", "valid"),
    "tokens": ("pad", "src_mask", "trg_mask", "tgt_mask"),
}


class Trial(NamedTuple):
    """One call of a builder and what it is about.

    Attributes
    ----------
    form : Form
        The call.
    family : str
        ``"causal"``, ``"window"``, ``"lengths"`` or ``"tokens"``.
    queries, keys : int
        Sizes of the mask that is meant.
    real : Tensor or None
        Which positions are real, (N, S), for masks of padding.
    window : int
        For windows.
    """

    form: Form
    family: str
    queries: int
    keys: int
    real: Tensor | None = None
    window: int = 0


def families(name: str, parameters: list[inspect.Parameter] | None) -> list[str]:
    """Return the kinds of masks that a builder may make, the likeliest first."""
    names = [plain_name(one.name) for one in parameters or []]
    name = name.lower()
    scores = dict.fromkeys(("causal", "lengths", "tokens", "window"), 0)
    for family, words in FAMILY_WORDS.items():
        scores[family] += 2 * any(word in name for word in words)
    first = names[0] if names else ""
    scores["lengths"] += 3 * (first in COUNTS.split()[:-1])
    scores["tokens"] += 3 * any(one in PADS.split() for one in names)
    scores["tokens"] += first in TOKENS.split()[:5]
    scores["window"] += 3 * any(one in WINDOWS.split()[:-1] for one in names)
    return sorted(scores, key=lambda family: -scores[family])


def trials(
    family: str, parameters: list[inspect.Parameter] | None, sizes: tuple[int, int], again: int = 0
) -> Iterator[Trial]:
    """Yield the calls of one family; ``again`` = 1 for other numbers."""
    if family == "lengths":
        yield from _of_lengths(parameters, again)
    elif family == "tokens":
        yield from _of_tokens(parameters, again)
    else:
        yield from _of_sizes(family, parameters, sizes, WINDOW - again)


def _of_sizes(
    family: str, parameters: list[inspect.Parameter] | None, sizes: tuple[int, int], window: int
) -> Iterator[Trial]:
    queries, keys = sizes
    known = {**_known(QUERIES, queries), **_known(KEYS, keys), **_plain(parameters)}
    if family == "window":
        known |= _known(WINDOWS, window)
    spare = [window] if family == "window" else []
    first = plain_name(parameters[0].name) if parameters else ""
    numbers = [fit(parameters, known, [queries, *spare]), fit(parameters, known, [queries, keys])]
    numbers.append(fit(parameters, known, [queries, keys, *spare]))
    if family == "causal" and parameters is None:
        numbers.insert(0, fit(None, known, [queries]))
    rest = {name: value for name, value in known.items() if name != first}
    given = [
        torch.zeros(2, queries, FEATURES),
        torch.zeros(2, 4, queries, keys),
        torch.ones(2, queries, dtype=torch.long),
        torch.zeros(queries, keys),
    ]
    tensors = [fit(parameters, rest, [x, *spare]) for x in given]
    ways = [*tensors, *numbers] if first in TENSORS.split() else [*numbers, *tensors]
    if parameters == []:
        return
    for form in _once(ways):
        yield Trial(form, family, queries, keys, window=window)


def _of_lengths(parameters: list[inspect.Parameter] | None, again: int) -> Iterator[Trial]:
    lengths = LENGTHS[again]
    names = {plain_name(one.name) for one in (parameters or [])[1:]}
    told = parameters is not None and any(name in LONGEST_NAMES.split() for name in names)
    spare = parameters is not None and sum(o.default is o.empty for o in parameters) > 1
    size = LONGEST + again if told or spare else max(lengths)
    real = torch.arange(size) < torch.tensor(lengths)[:, None]
    known = {**_known(LONGEST_NAMES, size), **_plain(parameters)}
    if parameters:
        known.pop(plain_name(parameters[0].name), None)
    for given in (torch.tensor(lengths), list(lengths)):
        form = fit(parameters, known, [given, size] if parameters else [given])
        if form is not None:
            yield Trial(form, "lengths", size, size, real)


def _of_tokens(parameters: list[inspect.Parameter] | None, again: int) -> Iterator[Trial]:
    length = LONGEST + again
    real = torch.arange(length) < torch.tensor([*LENGTHS[again][:2], length, 4])[:, None]
    fixed = [one for one in parameters or [] if plain_name(one.name) in PADS.split()]
    pads = (9, 0) if fixed else (0, 1)
    if fixed and isinstance(fixed[0].default, int):
        pads = (fixed[0].default,)
    for pad in pads:
        text = torch.arange(4 * length).view(4, length) % 5 + 2  # no 0 and no 1
        text[2, 1] = 0 if pad == 9 else 3  # an ordinary token where another id means padding
        ids = text.masked_fill(~real, pad)
        known = {**_known(PADS, pad), **_plain(parameters)}
        form = fit(parameters, known, [ids, pad] if parameters else [ids])
        if form is not None:
            yield Trial(form, "tokens", length, length, real)


def _known(names: str, value: object) -> dict[str, object]:
    return dict.fromkeys(names.split(), value)


def _plain(parameters: list[inspect.Parameter] | None) -> dict[str, object]:
    """Return values for required arguments that say nothing about the mask."""
    needed = {plain_name(one.name) for one in parameters or [] if one.default is one.empty}
    values = {"device": torch.device("cpu"), "dtype": torch.float32, "numheads": HEADS}
    return {name: value for name, value in values.items() if name in needed}


def _once(forms: list[Form | None]) -> Iterator[Form]:
    told = set()
    for form in forms:
        if form is not None and str(form) not in told:
            told.add(str(form))
            yield form
