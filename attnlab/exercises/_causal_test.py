"""Check for an exercise of lesson 3: a learner's own test for leaks."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.clinic import Evidence
from attnlab.exercises._answers import (
    Answer,
    NotDone,
    NoValue,
    Right,
    Wrong,
    article,
    judge,
    table,
)
from attnlab.exercises._verdict import Verdict
from attnlab.masks import causal_mask, sliding_window_mask

TOKENS, FEATURES = 6, 5
CAUSAL = causal_mask(TOKENS)
WORDS = ("leaks", "too tight", "right")


def check_causal_test(answer: object) -> Verdict:
    """Check a function that says whether another one attends causally.

    Verified: what it says of attention functions, two of them right, and of the causal mask with
    any one cell of the future opened or any one of the past closed.

    Parameters
    ----------
    answer : callable
        A function of (attend, x) that returns "leaks", "too tight" or "right".

    Returns
    -------
    Verdict
        Never an error.

    See Also
    --------
    attnlab.causal_mask : the mask that is promised.
    """
    return judge(answer, _causal_test)


def _except(row: int, key: int) -> Tensor:
    """Return the causal mask with one cell turned over."""
    mask = CAUSAL.clone()
    mask[row, key] = ~mask[row, key]
    return mask


def _one_cell() -> dict[str, tuple[str, Tensor]]:
    """Return the causal mask with one cell turned over, for every cell off the diagonal.

    A token that does not see itself alone stays hidden: its output moves with its query.
    """
    cells = [(i, j) for i in range(TOKENS) for j in range(TOKENS) if i != j]
    return {
        f"{'one open' if j > i else 'one closed'} cell, output {i} and token {j}": (
            "leaks" if j > i else "too tight",
            _except(i, j),
        )
        for i, j in cells
    }


ADDED = "ones and zeros, added"
MASKS: dict[str, tuple[str, Tensor]] = {  # what is right about it, and what it does
    "causal attention": ("right", CAUSAL),
    "causal attention, -inf added": (
        "right",
        torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, -torch.inf),
    ),
    "attention without a mask": ("leaks", torch.ones_like(CAUSAL)),
    "the mask turned over": ("leaks", ~CAUSAL),
    ADDED: ("leaks", CAUSAL.float()),
    "a mask without its diagonal": ("too tight", CAUSAL.tril(-1)),
    "a window of 4": ("too tight", CAUSAL & sliding_window_mask(TOKENS, window=4)),
    **_one_cell(),
}
HINTS = {
    "a mask without its diagonal": "No token sees itself there: output i must move with token i.",
    "a window of 4": "Output 5 does not see tokens 0 and 1 there: who may be seen must be seen.",
    ADDED: "Adding 1 and 0 to the scores blocks nothing.",
}


def _attend(mask: Tensor) -> Callable[[Tensor], Tensor]:
    def attend(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    return attend


def _tokens() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(TOKENS, FEATURES, generator=generator, dtype=torch.float32)


def _causal_test(answer: Answer) -> Right:
    said: dict[str, str] = {}
    for name, (_, mask) in MASKS.items():
        x = _tokens()
        try:
            said[name] = answer.ask(_attend(mask), x, read=_word, case=name)
        except (NotDone, NoValue) as error:
            said[name], nothing = "None", error
        if not torch.equal(x, _tokens()):
            raise Wrong("It changes the tokens it is given. Work on x.clone().")
    if set(said.values()) == {"None"}:
        raise nothing
    for name, (truth, mask) in MASKS.items():
        if said[name] != truth:
            raise Wrong(_why(name, said, truth), _picture(name, mask))
    return Right(f"It is right about all {len(MASKS)} functions.")


def _word(value: object) -> str:
    if not isinstance(value, str):
        kind = article(type(value).__name__)
        raise Wrong(f'It gives {kind}; return one of "leaks", "too tight", "right".')
    if value not in WORDS:
        raise Wrong(f'It gives "{value[:40]}"; return one of "leaks", "too tight", "right".')
    return value


def _why(name: str, said: dict[str, str], truth: str) -> str:
    """Name the mistake behind a wrong word."""
    told = f'Of "{name}" it says "{said[name]}", and "{truth}" is true.'
    if said[name] == "None":
        return f'Of "{name}" it returns None: return a word on every way.'
    if len(set(said.values())) == 1:
        return f"{told} It says so of every function."
    if {said[name], truth} == {"leaks", "too tight"} and name == "the mask turned over":
        return f"{told} It leaks and is too tight: look for leaks first."
    if truth == "right":
        return f"{told} Output i may, and must, move with tokens 0 to i."
    if name.startswith("one "):
        return f"{told} It is wrong in that cell alone: change every token in turn."
    hint = HINTS.get(name, "A token that comes later moves an earlier output.")
    return f"{told} {hint}"


def _picture(name: str, mask: Tensor) -> Evidence:
    numbers = mask.float()
    rows = {f"output {i}": row.tolist() for i, row in enumerate(numbers)}
    columns = tuple(f"token {j}" for j in range(TOKENS))
    if name == ADDED:
        return table("What is added to the scores there:", rows, columns)
    return table(f"The mask of {name}, 1 = may attend:", rows, columns)
