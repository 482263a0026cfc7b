"""The checks of lesson 3: masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import attention_weights
from attnlab.checks import shape
from attnlab.clinic import Evidence
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Answer, Wrong, choice, first_difference, table, vector
from attnlab.exercises.frame.forms import Case, Compared, Either, Opinion, randoms
from attnlab.masks import causal_mask, sequence_mask, sliding_window_mask
from attnlab.measures import influence_map

# --- a test for leaks -----------------------------------------------------------------------------

TOKENS = 6
CAUSAL = causal_mask(TOKENS)


def flipped(*cells: tuple[int, int]) -> Tensor:
    """Return the causal mask with some cells inverted."""
    mask = CAUSAL.clone()
    for cell in cells:
        mask[cell] = ~mask[cell]
    return mask


def added(number: float) -> Tensor:
    """Return a mask that adds a number to the scores of all later tokens."""
    return torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, number)


MOVES = "Output i depends on tokens 0 to i, and on no others."
MASKS = {  # the truth about it, the mask, and why another word is wrong
    "causal attention": ("correct", CAUSAL, MOVES),
    "causal attention, -inf added": ("correct", added(-torch.inf), MOVES),
    "attention without a mask": (
        "leaks",
        torch.ones_like(CAUSAL),
        "Some output depends on a token that comes later.",
    ),
    "the inverted mask": (
        "leaks",
        ~CAUSAL,
        "That mask is also too tight, but a leak must be reported first.",
    ),
    "a mask that adds -8 to the blocked scores": (
        "leaks",
        added(-8.0),
        "The blocked tokens keep weights of about 0.0003. That is little, but it is no rounding.",
    ),
    "ones and zeros, added": (
        "leaks",
        CAUSAL.float(),
        "Adding 1 and 0 to the scores blocks nothing.",
    ),
    "a mask without its diagonal": (
        "too tight",
        CAUSAL.tril(-1),
        "With that mask, outputs 0 and 1 do not depend on their own tokens. Look at the diagonal, "
        "too.",
    ),
    "a window of 4": (
        "too tight",
        CAUSAL & sliding_window_mask(TOKENS, window=4),
        "With that mask, output 5 does not depend on token 0 or 1, but it should.",
    ),
}


# A token that does not see itself alone cannot be found: its output moves with its query.
MASKS |= {
    f"a causal mask in which one cell too many is {'allowed' if j > i else 'blocked'}, "
    f"that of output {i} and token {j}": (
        "leaks" if j > i else "too tight",
        flipped((i, j)),
        f"Only the column of token {j} reveals this mistake, so look at every column.",
    )
    for i, j in permutations(range(TOKENS), 2)
}
MASKS["a mask with two cells exchanged"] = (
    "leaks",
    flipped((2, 3), (4, 1)),
    "It has as many open cells as the causal mask, but not the same ones.",
)


SMALL = "causal attention over 4 tokens of 3 features"
EMPTY = "a causal mask whose row 0 is empty, so that output 0 is NaN"


def attention_with(mask: Tensor) -> Callable[[Tensor], Tensor]:
    """Return attention over exactly the tokens of a mask."""

    def attend(x: Tensor) -> Tensor:
        if len(x) != len(mask):
            raise ValueError(f"attend takes all {len(mask)} tokens of x at once, got {len(x)}.")
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    return attend


def attend_with_nan(x: Tensor) -> Tensor:
    """Return causal attention by hand in which query 0 has no allowed key."""
    return filled(-torch.inf)(x @ x.mT / x.shape[-1] ** 0.5, flipped((0, 0))) @ x


def picture(case: Case) -> Evidence | None:
    """Return the mask of a case."""
    if case.name not in MASKS:
        return None
    rows = {f"output {i}": row for i, row in enumerate(MASKS[case.name][1].float())}
    return table("The mask there:", rows, [f"token {j}" for j in range(TOKENS)])


def judged(depends: Tensor) -> str:
    """Return what a table of dependences, outputs down and tokens across, means."""
    if depends.triu(1).any():
        return "leaks"
    return "correct" if torch.equal(depends, causal_mask(len(depends))) else "too tight"


def last_token_only(attend: Callable, x: Tensor) -> str:
    """Judge as a test that changes the last token alone."""
    depends = influence_map(attend, x) != 0
    if depends[:-1, -1].any():
        return "leaks"
    return "correct" if depends[-1].all() else "too tight"


@Opinion(
    read=partial(choice, options=("leaks", "too tight", "correct")),
    slips={
        "It returns “leaks” for every function. Perhaps it counts the diagonal: an output may "
        "depend on its own token.": lambda attend, x: "leaks",
        "It returns “correct” for every function.": lambda attend, x: "correct",
        "It never returns “correct”. Look for zeros on and below the diagonal only: above it, "
        "causal attention has zeros, and so has tril().": Either(
            lambda attend, x: "too tight",
            lambda attend, x: (
                "leaks" if judged(influence_map(attend, x) != 0) == "leaks" else "too tight"
            ),
        ),
        "A leak may sit in any column, and your function looks at the last one only.": (
            last_token_only
        ),
        "It reads the table the wrong way round: row i says what output i depends on.": (
            lambda attend, x: judged((influence_map(attend, x) != 0).mT)
        ),
        "NaN > 0 is False, so your function takes NaN for “does not depend”. Compare with != 0.": (
            lambda attend, x: judged(influence_map(attend, x) > 0)
        ),
    },
    errors={SMALL: "It ran with 6 tokens of 5 features before. Take the sizes from x."},
    evidence=picture,
    verified=f"Your function gives the correct answer for all {len(MASKS) + 2} functions that were "
    "tried.",
    keeps_inputs=True,
)
def check_causal_test() -> Iterator[Case]:
    """Check a function that says whether another one attends causally.

    Verified: what it says of attention functions, three of them correct, of the causal mask with
    any one cell of the future allowed or any one of the past blocked, of an output of NaN, and of
    fewer tokens with fewer features.

    Parameters
    ----------
    answer
        A function of (attend, x) that returns "leaks", "too tight" or "correct".

    See Also
    --------
    attnlab.influence_map : shows what each output depends on.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(TOKENS, 5, generator=generator, dtype=torch.float32)
    for name, (truth, mask, hint) in MASKS.items():
        yield Case(name, (attention_with(mask), x), truth, f"It should return “{truth}”. {hint}")
    hint = "It should return “leaks”. An output that is NaN depends on everything."
    yield Case(EMPTY, (attend_with_nan, x), "leaks", hint)
    hint = "It should return “correct”. Take the sizes from x."
    yield Case(SMALL, (attention_with(causal_mask(4)), x[:4, :3]), "correct", hint)


# --- a safe softmax -------------------------------------------------------------------------------

ALLOWED = torch.tensor([[1, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]]).bool()
WITH_EMPTY = ALLOWED & torch.tensor([[False], [True], [True]])
AXES = ("sequence", "head", "row", "key")
FILLS = (-1e4, -1e9)  # some scores that are tried are lower


def safe(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return the weights; 0 in a row without an allowed key."""
    return attention_weights(scores, attn_mask=allowed)


def filled(fill: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a softmax over scores whose blocked ones are replaced by a number."""
    return lambda scores, allowed: scores.masked_fill(~allowed, fill).softmax(dim=-1)


def filled_and_erased(fill: float, scores: Tensor, allowed: Tensor) -> Tensor:
    """Return the weights of such a softmax, with 0 for each blocked key."""
    return filled(fill)(scores, allowed).masked_fill(~allowed, 0.0)


def erased(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return a softmax over all scores whose blocked weights are set to 0."""
    return scores.softmax(dim=-1) * allowed


def divided(weights: Tensor, least: float = 0.0) -> Tensor:
    """Return weights divided by what is left of each row."""
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=least)


def unexplained(weights: Tensor, right: Tensor, scores: Tensor, allowed: Tensor) -> str:
    """Say what is wrong with weights whose mistake has no name."""
    if scores.ndim > 2 and weights.isnan().all(dim=-1).any():
        return "They contain NaN. Weights of a row that allows no key must be 0 in any batch."
    if scores.ndim > 2:
        return voice.FROM_THE_END
    if right.isnan().any():
        return (
            "A NaN in an allowed score has vanished, so a bug elsewhere would stay hidden. Use "
            "the mask, not the NaN, to find empty rows."
        )
    if scores.isnan().any():
        return (
            "A NaN in a blocked score reaches the weights, because adding and multiplying keep a "
            "NaN. masked_fill replaces it."
        )
    if scores.abs().max() > 50 and torch.allclose(weights, right, rtol=0.1):
        return (
            "They are nearly correct, but digits are lost where scores are far from 0, as in "
            "exp(score - logsumexp). Subtract the largest score of the row first, as softmax does."
        )
    if torch.allclose(weights, right, atol=1e-3):
        return (
            "They are nearly correct, but the difference is too large to be rounding. A blocked "
            "key must get a weight of exactly 0, and every row with an allowed key must sum to 1, "
            "so do not add a small number anywhere."
        )
    if scores.abs().max() > 50:
        return (
            "Scores far from 0 break your function. Set the blocked scores to -inf, which is below "
            "every score. Exponentials of your own overflow or round to 0, unless the largest "
            "allowed score of the same row is subtracted first. softmax itself does so."
        )
    if allowed.any(dim=-1).all():
        if weights.isnan().any():
            return "They contain NaN. Fill blocked scores with -inf, by masked_fill."
        if weights.shape == allowed.shape and (weights[allowed] == 0).any():
            return "Where a key is allowed, its weight must stay. True means that a key is allowed."
        return (
            "In every row, divide e to the power of each allowed score by the sum of these powers."
        )
    if weights[0].isnan().any():
        return (
            "They contain NaN, because the softmax divides 0 by 0, and NaN times 0 is NaN. All "
            "weights of row 0 must be 0."
        )
    if not weights[0].any():
        return "Row 0 is right, but the rows with an allowed key must keep their weights."
    return "All weights of row 0 must be 0."


def gradient_of(weights: object, scores: Tensor) -> Tensor:
    """Return the gradient of the scores from weights, which count with random factors."""
    if not isinstance(weights, Tensor) or not weights.requires_grad:
        return torch.zeros_like(scores)
    (factors,) = randoms(weights.shape, seed=1)
    return torch.autograd.grad((weights * factors).sum(), scores)[0]


def see_gradients(answer: Answer, body: Callable) -> None:
    """Raise Wrong if the gradient of the scores is wrong in one of the cases."""
    for case, (given, allowed) in body():
        scores = given.clone().requires_grad_()
        read = partial(gradient_of, scores=scores)
        gradient = answer.ask(scores, allowed.clone(), read=read, case=case)
        right = read(safe(scores, allowed))
        buggy = (allowed & ~given.isfinite()).any(dim=-1, keepdim=True)
        gradient, right = gradient.masked_fill(buggy, 0), right.masked_fill(buggy, 0)
        if not torch.allclose(gradient, right, atol=1e-5, equal_nan=True):
            why = "Is a part of the calculation, such as the sum, detached?"
            if gradient.isnan().any():
                why = (
                    "It is NaN, because in an empty row a NaN or infinity enters the softmax. Give "
                    "such a row finite scores before the softmax."
                )
            raise Wrong(
                f"With {case}, the weights are correct, but the gradient is not. {why}",
                first_difference(gradient, right, AXES),
            )


@Compared(
    right=safe,
    slips={
        "The mask is read the wrong way round. True means that a key is allowed.": Either(
            lambda scores, allowed: safe(scores, ~allowed),
            lambda scores, allowed: scores.masked_fill(allowed, -torch.inf).softmax(dim=-1),
        ),
        "Weights are changed after the softmax, so the rows do not sum to 1, and blocked scores "
        "still count. Set them to -inf before the softmax.": erased,
        "Dividing by what is left gives 0/0 in a row without an allowed key, and also where a "
        "blocked score is so large that all allowed weights round to 0.": Either(
            lambda scores, allowed: divided(erased(scores, allowed)),
            lambda scores, allowed: divided(erased(scores, allowed), least=1e-9),
        ),
        "A number such as -1e4 or -1e9 is not below every score, and then the allowed keys get no "
        "weight. -inf is below every score.": Either(
            *map(filled, FILLS), *(partial(filled_and_erased, fill) for fill in FILLS)
        ),
        "Blocked scores are filled with 0, which is a score like any other.": filled(0.0),
        "Each key of row 0 gets 0.25, because all scores of this row were filled with the same "
        "number. All weights of row 0 must be 0.": filled(torch.finfo(torch.float32).min),
    },
    what="weights",
    errors={
        "The shape of the mask": (
            "The mask may be smaller than the scores. allowed.expand_as(scores) makes it as large."
        ),
        "modified by an inplace operation": (
            "softmax needs its result for the gradient. Use masked_fill, which makes a copy."
        ),
        "appears to not have been used in the graph": (
            "For autograd the weights do not depend on the scores. Is a part detached?"
        ),
    },
    read=vector,
    nan="",
    otherwise=unexplained,
    also=see_gradients,
    verified="The weights and the gradient are correct, even for large scores, an empty row, NaN "
    "and a mask of shape (N, 1, 1, S).",
    axes=AXES,
    atol=1e-40,
    rtol=8e-7,  # correct answers stay below 4e-7
    keeps_inputs=True,
)
def check_safe_softmax() -> Iterator[tuple[str, tuple]]:
    """Check a softmax over the allowed keys that is 0 in rows without any.

    Verified: the weights, also for large scores, an empty row, sums of 1 up to rounding and
    blocked weights of exactly 0, a NaN that must stay visible and one that must not matter, the
    gradient, a mask that broadcasts, and that the scores stay as they are.

    Parameters
    ----------
    answer
        A function of (scores, allowed) that returns the weights.

    See Also
    --------
    attnlab.attention_weights : attnlab's own.
    """
    scores, visible, blocked = (randoms((3, 4))[0] for _ in range(3))
    visible[2, 2] = torch.nan
    blocked[0, :2], blocked[1, 0] = torch.tensor([torch.nan, torch.inf]), torch.nan
    for_all_heads = torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]]).bool()[:, None, None, :]
    large = torch.tensor([[100, 101, -100, 99], [100, 100, -110, -111], [-100, 100, 0, 99.0]])
    yield "scores (3, 4) and a mask that allows at least one key in every row", (scores, ALLOWED)
    # exponentials may be too small although no blocked score is larger than the allowed ones
    low = scores - torch.tensor([[0.0], [200.0], [0.0]])
    yield "scores of which those of row 1 are near -200", (low, ALLOWED)
    yield "scores from -111 to 101", (large, ALLOWED)
    # the weights stay, but a fill such as -150 is no longer lowest
    yield "scores from -100111 to -99899", (large - 1e5, ALLOWED)
    yield "scores near -1e10", (large - 1e10, ALLOWED)
    yield "a mask whose row 0 allows no key", (scores, WITH_EMPTY)
    yield "a NaN among the allowed scores of row 2", (visible, WITH_EMPTY)
    yield "scores (2, 3, 3, 4) and a mask (2, 1, 1, 4)", (*randoms((2, 3, 3, 4)), for_all_heads)
    yield "NaN and infinity among the blocked scores", (blocked, WITH_EMPTY)
    for_some = WITH_EMPTY.expand(2, 1, 3, 4)
    yield "scores (2, 3, 3, 4), whose row 0 allows no key", (*randoms((2, 3, 3, 4)), for_some)


# --- a padded batch -------------------------------------------------------------------------------

S, E, EV = 5, 4, 6
WORDS = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])  # 1 = a word: padding right and left
ROWS_BLOCKED = (
    "The queries of <pad> get nothing, but they should attend to the words, too. A plain softmax "
    "gives NaN in a row without an allowed key, and the next layer spreads the NaN. A padding mask "
    "blocks columns, not rows."
)
HF_SHAPE = "The mask needs the shape (N, 1, 1, S)."
LARGE = 256.0  # makes scores of 300 and more: what blocks must lie below them


def with_mask(mask_of: Callable[[Tensor], Tensor | None]) -> Callable[..., Tensor]:
    """Return attention with a mask that is made of the attention_mask."""

    def attend(query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
        mask = mask_of(attention_mask)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return attend


def of_keys(attention_mask: Tensor) -> Tensor:
    """Return which keys are words: (N, 1, 1, S)."""
    return attention_mask[:, None, None] == 1


@Compared(
    right=with_mask(of_keys),
    slips={
        "The queries attend only to <pad>, but 1 means a word and 0 means padding.": with_mask(
            lambda m: ~of_keys(m)
        ),
        "Ones and zeros are added to the scores, which blocks nothing. Pass a Boolean mask.": (
            with_mask(lambda m: of_keys(m).float())
        ),
        "The mask blocks rows, but padding has to be blocked in the columns, as keys.": with_mask(
            lambda m: of_keys(m).mT
        ),
        ROWS_BLOCKED: with_mask(lambda m: of_keys(m) & of_keys(m).mT),
        "The words are counted and assumed to come first, but the padding may be on the left.": (
            with_mask(lambda m: sequence_mask(m.sum(dim=-1), S)[:, None, None])
        ),
        "A causal mask is combined with that of the padding, but only <pad> must be blocked.": (
            with_mask(lambda m: of_keys(m) & torch.ones(S, S, dtype=torch.bool).tril())
        ),
        "A score of 0 takes weight like any other. Block the score of <pad> with -inf.": Either(
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k * m[:, None, :, None], v),
            lambda q, k, v, m: F.scaled_dot_product_attention(
                q, k * m[:, None, :, None], v * m[:, None, :, None]
            ),
        ),
        "<pad> adds nothing to the output, but it still takes weight from the words. Block its "
        "score before the softmax.": (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v * m[:, None, :, None])
        ),
        "Dividing by what is left loses the words where the score of a <pad> is much larger. Block "
        "its score before the softmax.": (
            lambda q, k, v, m: divided(erased(q @ k.mT / E**0.5, of_keys(m))) @ v
        ),
        "The mask is right, but the scores are not divided by the square root of E.": (
            lambda q, k, v, m: filled(-torch.inf)(q @ k.mT, of_keys(m)) @ v
        ),
        "A number such as -10 or -100, added to the scores, does not block a large one. Pass a "
        "Boolean mask.": Either(
            with_mask(lambda m: -10.0 * ~of_keys(m)), with_mask(lambda m: -100.0 * ~of_keys(m))
        ),
    },
    errors={
        "two sentences, 3 heads, query (2, 3, 5, 4)": (
            f"{HF_SHAPE} An axis is missing, so the sentences were lined up with the heads or with "
            "the queries."
        ),
        "Dimension out of range": HF_SHAPE,
        "attn_mask dtype": "Compare the mask with 1, which makes it Boolean.",
        "Explicit attn_mask": "Only <pad> must be blocked, so leave is_causal out.",
        "query (2, 3, 4, 4)": "There are 4 queries and 5 keys, so the mask need not be square.",
        **dict.fromkeys(("tensor b (2) at non-singleton", "the broadcast shape"), HF_SHAPE),
    },
    nan="It contains NaN. In every row, fill <pad> alone with -inf.",
    otherwise="Does every query attend to the words of its own sentence, and to nothing else?",
    verified="Each sentence gets its own mask, whatever the number of heads and queries.",
    atol=1e-4,
)
def check_padded_batch() -> Iterator[tuple[str, tuple]]:
    """Check attention over heads with a Hugging Face ``attention_mask``.

    Verified: the output, for one sentence and two, padded on either side, fewer queries than keys,
    and large scores.

    Parameters
    ----------
    answer
        A function of (query, key, value, attention_mask) that returns the output.

    See Also
    --------
    attnlab.from_hf_attention_mask : converts the mask.
    """
    # as many queries as keys hide a square mask
    for N, H, L, size in ((1, 3, S, 1.0), (2, 3, S, 1.0), (2, 3, 4, 1.0), (2, 3, S, LARGE)):
        query, key, value = randoms((N, H, L, E), (N, H, S, E), (N, H, S, EV))
        sentences = "one sentence" if N == 1 else "two sentences"
        times = "" if size == 1 else f" times {size:g}"
        case = f"{sentences}, {H} heads, query {shape(query)}{times} and attention_mask {(N, S)}"
        yield case, (size * query, key, value, WORDS[:N].clone())
