"""Every cause that the clinic can name: what usually mends it and which lesson explains it."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """A cause by its fix and the file name of its lesson, without its ending."""

    fix: str
    lesson: str


_HEADS = "x.view(N, L, H, d).transpose(1, 2): cut the features first, then move the heads."
_MERGE = "x.transpose(1, 2).reshape(N, L, H * d): move the heads back, then join."
_FIXES = {  # of one or several causes, by lessons
    "01_attention_is_a_soft_look_up": {
        "wrong-shape": "print the shape of every intermediate tensor.",
        "nan": "subtract each row's maximum before exp, or use softmax.",
        "softmax-axis": "softmax(dim=-1): every query shares 1 among the keys.",
        "not-normalised": "softmax(dim=-1) on the scores gives rows that sum to 1.",
        "scores-not-dot-products": "query @ key.transpose(-2, -1), scaled.",
        "key-value-swapped wrong-source": "compare query with key; average value.",
        "query-key-swapped": "query @ key.transpose(-2, -1): one row per query.",
        "position-mixing": "keep the order of the tokens: row i of the output belongs to query i.",
    },
    "02_why_divide_by_the_square_root_of_d_k": {
        "detached": "keep to tensor operations: no detach, item, numpy or torch.tensor.",
        (
            "scale-missing scale-d scale-inverse scale-model scale-length "
            "scale-constant scale-other"
        ): (
            "divide the scores by math.sqrt(query.shape[-1]), the square root of the number of "
            "features of one head."
        ),
    },
    "03_masks_who_may_look_at_whom": {
        "modifies-input": "make a new tensor: masked_fill for masked_fill_, x = x * 2 for x *= 2.",
        "mask-ignored mask-leak": (
            "scores = scores.masked_fill(~mask, -torch.inf) before the softmax. masked_fill "
            "returns a new tensor: assign it."
        ),
        "mask-inverted": (
            "masked_fill(~mask, -torch.inf) if True means may attend. If it is meant to block, "
            'pass mask="blocked" to diagnose.'
        ),
        "mask-added": (
            "scores = scores.masked_fill(~mask, -torch.inf). If the mask is meant to hold 0 and "
            '-inf, pass mask="additive" to diagnose.'
        ),
        "mask-multiplied": (
            "a score of 0 is a score like any other: scores = scores.masked_fill(~mask, "
            "-torch.inf)."
        ),
        "mask-after-softmax": (
            "mask the scores: scores = scores.masked_fill(~mask, -torch.inf), and then the softmax."
        ),
        "mask-finite": "fill with -torch.inf: scores = scores.masked_fill(~mask, -torch.inf).",
        "mask-queries": "a padded token must not be looked at: block its column.",
        "causal-leak causal-off-by-one causal-flipped causal-missing": (
            "let query i see key j only where j <= i: before the softmax, scores = "
            "scores.masked_fill(torch.ones_like(scores).tril() == 0, -torch.inf)."
        ),
    },
    "04_reading_heatmaps_honestly": {
        "random": (
            "apply dropout only while training: F.dropout(..., training=self.training), and make "
            "layers once, in __init__."
        ),
        "square-only": (
            "take L from the query, S from the key and Ev from the value, each by .shape."
        ),
        "weights-differ": "return the weights that multiplied the value.",
        "batch-first": "put batch_first=True, or transpose(0, 1) before and after.",
    },
    "06_where_q_k_and_v_come_from": {
        "batch-mixing": (
            "leave the batch alone: keep its size in every view and reshape, and move, multiply "
            "and normalise only the dimensions behind it."
        ),
        "no-effect": "use it where its name says, or take it out.",
    },
    "07_multi_head_reshaping_without_scrambling": {
        "head-mixing": (
            "give each head its own dimension, and leave it alone in products and softmax."
        ),
        "split-without-transpose": _HEADS,
        "merge-without-transpose": _MERGE,
    },
    "11_order": {
        "positions": (
            "turn queries and keys alike, each by its own position, and leave the values alone."
        )
    },
    "13_word_by_word_the_cache": {
        "cache": (
            "put the new keys and values behind those of the cache, and align the causal mask at "
            "the lower right."
        )
    },
    "09_clinic": {
        "raises": (
            "make the call named above yourself. If it has to be called otherwise, pass call=."
        ),
        "remembers": "compute from the arguments only; keep no tensor between calls.",
    },
}
CAUSES = {
    name: Cause(fix, lesson)
    for lesson, fixes in _FIXES.items()
    for names, fix in fixes.items()
    for name in names.split()
}

# Which lines under "Checked and found to hold" are not true where one of these was found.
_UNDONE = {
    "causal-leak causal-off-by-one causal-flipped causal-missing": "causal",
    "mask-leak mask-ignored mask-inverted mask-finite": "blocked-keys both-masks",
    "split-without-transpose merge-without-transpose head-mixing position-mixing": "heads",
    "softmax-axis not-normalised nan": "sums",
    "scores-not-dot-products": "products scale",
    "key-value-swapped wrong-source": "sides groups heads",
    "batch-mixing": "apart",
    "detached nan": "gradients",
    "modifies-input": "arguments",
    "weights-differ": "weights",
    "positions": "positions",
    "remembers": "apart blocked-keys cache",
    "cache": "cache",
}
UNDOES = {
    name: {key for words, keys in _UNDONE.items() if name in words.split() for key in keys.split()}
    for name in CAUSES
}

# What each of these explains, if it was found as well; "*" for everything.
EXPLAINS: dict[str, tuple[str, ...]] = {
    "random": ("*",),
    "nan": ("*",),
    "softmax-axis": ("batch-mixing", "head-mixing", "position-mixing", "not-normalised"),
    "key-value-swapped": ("square-only", "wrong-source"),
    "query-key-swapped": ("square-only",),
    "wrong-source": ("square-only", "detached"),
    "not-normalised": ("detached",),
    "remembers": ("detached",),
    "batch-mixing": ("head-mixing", "position-mixing"),
    "mask-queries": ("square-only",),
    "mask-inverted": ("mask-leak",),
    "batch-first": ("batch-mixing",),
}
