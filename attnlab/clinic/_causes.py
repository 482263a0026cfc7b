"""Every cause that the clinic can name: what usually mends it and which lesson explains it."""

from __future__ import annotations

from typing import NamedTuple

LESSONS = {
    0: "00_start_here",
    1: "01_attention_is_a_soft_look_up",
    2: "02_why_divide_by_the_square_root_of_d_k",
    3: "03_masks_who_may_look_at_whom",
    4: "04_reading_heatmaps_honestly",
    6: "06_where_q_k_and_v_come_from",
    7: "07_multi_head_reshaping_without_scrambling",
    8: "08_what_attention_costs_and_how_to_pay_less",
    9: "09_clinic",
}


class Cause(NamedTuple):
    """A cause by its fix and the number of its lesson."""

    fix: str
    lesson: int


_SCALE = (
    "divide the scores by math.sqrt(query.shape[-1]), the square root of the number of features "
    "of one head."
)
_HEADS = "x.view(N, L, H, d).transpose(1, 2): cut the features first, then move the heads."
_MERGE = "x.transpose(1, 2).reshape(N, L, H * d): move the heads back, then join."
_FILL = (
    "scores = scores.masked_fill(~mask, -torch.inf) before the softmax. masked_fill returns a new "
    "tensor: assign it."
)
_CAUSAL = (
    "let query i see key j only where j <= i: before the softmax, "
    "scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -torch.inf)."
)

CAUSES: dict[str, Cause] = {
    # how it behaves as a function
    "not-callable": Cause("pass a function, a module or a pair (split, merge).", 9),
    "not-done": Cause("write the body and return the result.", 9),
    "raises": Cause(
        "make the call named above yourself. If it has to be called otherwise, pass call=.", 9
    ),
    "wrong-type": Cause("return a tensor, or the pair (output, weights).", 1),
    "wrong-shape": Cause("print the shape of every intermediate tensor.", 1),
    "prints": Cause("remove the print: a layer is called thousands of times.", 9),
    "modifies-input": Cause(
        "make a new tensor: masked_fill for masked_fill_, x = x * 2 for x *= 2.", 3
    ),
    "random": Cause(
        "apply dropout only while training: F.dropout(..., training=self.training), and make "
        "layers once, in __init__.",
        4,
    ),
    "remembers": Cause("compute from the arguments only; keep no tensor between calls.", 9),
    "hangs": Cause("look for a loop that never ends, or a step that waits for something.", 9),
    "slow": Cause("replace Python loops by one matrix product.", 8),
    "detached": Cause("keep to tensor operations: no detach, item, numpy or torch.tensor.", 2),
    "contiguity": Cause("use reshape, or call contiguous() before view.", 7),
    "device": Cause(
        "make new tensors with device=x.device; register_buffer those that a layer keeps.", 9
    ),
    "dtype": Cause("make new tensors with dtype=x.dtype, and return the dtype of the input.", 9),
    "nan": Cause("subtract each row's maximum before exp, or use softmax.", 1),
    # what it computes
    "softmax-axis": Cause("softmax(dim=-1): every query shares 1 among the keys.", 1),
    "not-normalised": Cause("softmax(dim=-1) on the scores gives rows that sum to 1.", 1),
    "hard": Cause("use softmax: it has a gradient, argmax has none.", 1),
    **dict.fromkeys(
        "scale-missing scale-d scale-inverse scale-model scale-quarter scale-length scale-constant "
        "scale-other".split(),
        Cause(_SCALE, 2),
    ),
    "scores-not-dot-products": Cause("query @ key.transpose(-2, -1), scaled.", 1),
    "key-value-swapped": Cause("compare query with key; average value.", 1),
    "query-key-swapped": Cause("query @ key.transpose(-2, -1): one row per query.", 1),
    "wrong-source": Cause("compare query with key; average value.", 1),
    "batch-mixing": Cause(
        "leave the batch alone: keep its size in every view and reshape, and move, multiply and "
        "normalise only the dimensions behind it.",
        6,
    ),
    "head-mixing": Cause(
        "give each head its own dimension, and leave it alone in products and softmax.", 7
    ),
    "position-mixing": Cause(
        "keep the order of the tokens: row i of the output belongs to query i.", 1
    ),
    "transposed-batch": Cause("key.transpose(-2, -1): .T turns every dimension around.", 6),
    "square-only": Cause(
        "take L from the query, S from the key and Ev from the value, each by .shape.", 4
    ),
    "weights-differ": Cause("return the weights that multiplied the value.", 4),
    # masks
    "mask-ignored": Cause(_FILL, 3),
    "mask-inverted": Cause(
        "masked_fill(~mask, -torch.inf) if True means may attend. If it is meant to block, pass "
        'mask="blocked" to diagnose.',
        3,
    ),
    "mask-added": Cause(
        "scores = scores.masked_fill(~mask, -torch.inf). If the mask is meant to hold 0 and -inf, "
        'pass mask="additive" to diagnose.',
        3,
    ),
    "mask-multiplied": Cause(
        "a score of 0 is a score like any other: scores = scores.masked_fill(~mask, -torch.inf).", 3
    ),
    "mask-after-softmax": Cause(
        "mask the scores: scores = scores.masked_fill(~mask, -torch.inf), and then the softmax.", 3
    ),
    "mask-finite": Cause(
        "fill with -torch.inf: scores = scores.masked_fill(~mask, -torch.inf).", 3
    ),
    "mask-leak": Cause(_FILL, 3),
    "mask-queries": Cause("a padded token must not be looked at: block its column.", 3),
    "mask-transposed": Cause("row i of the mask belongs to query i.", 3),
    "mask-broadcast": Cause(
        "give each sequence its own mask: mask[:, None] where heads have a dimension, "
        "mask.repeat_interleave(num_heads, dim=0) where they are folded into the batch.",
        3,
    ),
    "blocked-row": Cause("find rows without a True in the mask and set their weights to 0.", 3),
    **dict.fromkeys(
        "causal-leak causal-off-by-one causal-flipped causal-missing".split(), Cause(_CAUSAL, 3)
    ),
    "causal-eval": Cause("only dropout depends on self.training; the mask never does.", 3),
    "train-eval": Cause("only dropout depends on self.training.", 3),
    # heads and modules
    "split-without-transpose": Cause(_HEADS, 7),
    "merge-without-transpose": Cause(_MERGE, 7),
    "split-and-merge": Cause(f"{_HEADS} {_MERGE}", 7),
    "heads-order": Cause(_HEADS, 7),
    "round-trip": Cause("undo the steps of split in the opposite order.", 7),
    "attends-over-heads": Cause("move the heads in front of the tokens: transpose(1, 2).", 7),
    "heads-shared": Cause("give every head its own part of the projections.", 7),
    "heads-from-input": Cause("project all of x first, then cut into heads.", 7),
    "not-attention": Cause("gather from the other tokens: weights @ value.", 1),
    "batch-first": Cause("put batch_first=True, or transpose(0, 1) before and after.", 4),
    "cross-side": Cause(
        "queries come from the first argument, keys and values from the others.", 4
    ),
    "padding-leak": Cause("block the padded keys in every row.", 3),
    # functions that build masks
    "mask-dtype": Cause("return a bool tensor: True where the query may attend.", 3),
    "length-off-by-one": Cause("positions < lengths[:, None]: a length counts real tokens.", 3),
    # softmax by hand
    "underflow": Cause("subtract each row's own maximum: amax(dim=-1, keepdim=True).", 1),
}

# What each of these explains, if it was found as well; "*" for everything.
EXPLAINS: dict[str, tuple[str, ...]] = {
    "not-done": ("*",),
    "hangs": ("*",),
    "random": ("*",),
    "softmax-axis": ("batch-mixing", "head-mixing", "position-mixing", "not-normalised"),
    "key-value-swapped": ("square-only", "wrong-source"),
    "query-key-swapped": ("square-only",),
    "wrong-source": ("square-only", "detached"),
    "hard": ("detached",),
    "dtype": ("detached",),
    "remembers": ("detached", "dtype", "contiguity"),
    "batch-mixing": ("head-mixing", "position-mixing"),
    "transposed-batch": ("batch-mixing", "square-only"),
    "mask-queries": ("padding-leak", "square-only"),
    "mask-inverted": ("padding-leak", "mask-leak"),
    "batch-first": ("batch-mixing", "attends-over-heads"),
}
