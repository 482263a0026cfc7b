"""The checks of lesson 7: multi-head attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from attnlab.checks import shape
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Answer, Wrong
from attnlab.exercises.frame.forms import Compared, Either, asked, randoms, same
from attnlab.heads import merge_heads, split_heads

Split = Callable[[Tensor, int], Tensor]
Merge = Callable[[Tensor], Tensor]
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
VIEWED = {
    "view size is not compatible": "After a transpose, the numbers of a row do not lie side by "
    "side in memory. Use reshape or flatten.",
}


def advised(for_three_heads: str, are_correct: str = "With 3 heads it is correct.") -> Callable:
    """Return what to say of wrong numbers; 3 heads are tried before all other sizes."""
    elsewhere = f"{are_correct} Does your code contain a fixed size?"
    return lambda _got, _right, _size, num_heads: for_three_heads if num_heads == 3 else elsewhere


BEHIND = (
    "Each head is right. Your merge puts the heads behind the features. Bring back (N, L, H, "
    "head_dim), and then flatten."
)
EXCHANGED = "Your split exchanges two sizes. View as (N, L, H, E // H), and then transpose."

# --- attention in heads, with some of its steps changed -------------------------------------------


def cut(x: Tensor, num_heads: int) -> Tensor:
    """Cut the order of memory into heads."""
    return x.reshape(len(x), num_heads, x.shape[1], -1)


def pile(heads: Tensor) -> Tensor:
    """Join the heads in the order of memory."""
    return heads.reshape(len(heads), heads.shape[2], -1)


def left_behind(x: Tensor, num_heads: int) -> Tensor:
    """Cut the features, and leave the heads behind the tokens."""
    return x.unflatten(-1, (num_heads, -1))


def in_turn(x: Tensor, num_heads: int) -> Tensor:
    """Give head h the features h, h + num_heads, h + 2 num_heads, ..."""
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


def from_turns(heads: Tensor) -> Tensor:
    """Join what ``in_turn`` has split."""
    return heads.permute(0, 2, 3, 1).flatten(-2)


def in_two(x: Tensor, _num_heads: int) -> Tensor:
    """Split the features into two heads, however many there should be."""
    return split_heads(x, 2)


def in_one(x: Tensor, _num_heads: int) -> Tensor:
    """Take all features as one head."""
    return x[:, None]


def sizes_exchanged(x: Tensor, num_heads: int) -> Tensor:
    """Split the features into as many heads as a head should have features."""
    return x.unflatten(-1, (-1, num_heads)).transpose(1, 2)


def flattened(heads: Tensor) -> Tensor:
    """Join the last two axes."""
    return heads.flatten(2)


def turned(heads: Tensor) -> Tensor:
    """Exchange tokens and features instead of heads and tokens, and join."""
    return heads.mT.reshape(len(heads), heads.shape[2], -1)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    axes: tuple[int, ...] = (-1,),
    dim: int = -1,
    columns: bool = False,
    late: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return output and weights of every head, the scores divided by the root of some sizes.

    With ``columns``, the values are multiplied by the columns of the weights; with ``late``, the
    softmax is divided and not the scores.
    """
    divisor = math.sqrt(math.prod(query.shape[axis] for axis in axes))
    scores = query @ key.mT
    weights = scores.softmax(dim) / divisor if late else (scores / divisor).softmax(dim)
    return (weights.mT if columns else weights) @ value, weights


# --- the layer ------------------------------------------------------------------------------------

SIZES = {12: (2, 5, 12), 8: (1, 7, 8)}  # of the tokens, by their features


class MultiHead(nn.Module):
    """Multi-head attention whose steps can be changed."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        split: Split = split_heads,
        merge: Merge = merge_heads,
        use: Sequence[str] = PROJECTIONS,
        **steps: object,
    ) -> None:
        super().__init__()
        for name in PROJECTIONS:
            setattr(self, name, nn.Linear(embed_dim, embed_dim, bias=False))
        self.num_heads, self.split, self.merge, self.steps = num_heads, split, merge, steps
        self.use = use  # the names of what projects for query, key, value and output, "" for none

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and the weights."""
        projects = [getattr(self, name) if name else nn.Identity() for name in self.use]
        heads = [self.split(project(x), self.num_heads) for project in projects[:3]]
        answers, weights = attend(*heads, **self.steps)
        return projects[3](self.merge(answers)), weights


class SplitFirst(MultiHead):
    """A layer that splits the tokens and projects each part by its own block of the matrices."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and the weights."""
        block = torch.ones(2 * [x.shape[-1] // self.num_heads])
        with torch.no_grad():
            for name in PROJECTIONS[:3]:
                getattr(self, name).weight.mul_(torch.block_diag(*self.num_heads * [block]))
        return super().forward(x)


def changed(**parts: object) -> Callable[[int, int], MultiHead]:
    """Return the layer with some parts changed, to be made of E and H."""
    return lambda embed_dim, num_heads: MultiHead(embed_dim, num_heads, **parts)


def applied(layer: object, what: str) -> Tensor:
    """Return output or weights of a layer with known parameters, for known tokens."""
    if not isinstance(layer, nn.Module):
        raise Wrong(voice.returned(voice.kind_of(layer), "the layer, an nn.Module"))
    if not [*layer.parameters()]:
        raise NotImplementedError  # the class is still empty
    projections = {name: getattr(layer, name, None) for name in PROJECTIONS}
    for name, one in projections.items():
        if not isinstance(one, nn.Linear):
            raise Wrong(
                f"The layer has no nn.Linear named {name}. It needs {', '.join(PROJECTIONS)}."
            )
        if one.bias is not None:
            raise Wrong(f"{name} has a bias. Make all four with bias=False.")
    embed_dim = max(one.in_features for one in projections.values())
    for name, one in projections.items():
        if one.weight.shape != (embed_dim, embed_dim):
            raise Wrong(
                f"The weight of {name} has the shape {shape(one.weight)}. Make it nn.Linear(E, E), "
                "one matrix for all heads."
            )
    if embed_dim not in SIZES:
        raise Wrong(
            f"The matrices are {embed_dim} wide. `__init__` takes E first, and then H. Does your "
            "code contain a fixed size?"
        )
    tokens, *weights = randoms(SIZES[embed_dim], *[(embed_dim, embed_dim)] * 4, dtype=torch.float64)
    layer.double()
    with torch.no_grad():
        for one, weight in zip(projections.values(), weights, strict=True):
            one.weight.copy_(weight / embed_dim**0.5)
    result = layer(tokens)
    if result is None:
        raise Wrong("`forward` returns None. Return the output and the weights.")
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Wrong(
            f"`forward` returns {voice.kind_of(result)}. Return two tensors, output and weights."
        )
    asked_for = result[("output", "weights").index(what)]
    if not isinstance(asked_for, Tensor):
        raise Wrong(
            f"The {what} that `forward` returns should be a tensor, not {voice.kind_of(asked_for)}."
        )
    return asked_for.detach()


output_of = partial(applied, what="output")
weights_of = partial(applied, what="weights")


def check_weights(answer: Answer, body: Callable[[], Iterator]) -> None:
    """Raise Wrong unless the weights are those of every head, too."""
    for case, inputs in body():
        got, right = asked(answer, inputs, case, weights_of), weights_of(MultiHead(*inputs))
        if got.shape != right.shape:
            why = "Return one table for each head, in the order (N, H, L, L)."
            raise Wrong(
                f"The output is correct. {voice.has(case, 'weights', 'shape', got, right)} {why}"
            )
        if not same(got, right):
            raise Wrong(
                f"The output is correct. {voice.is_wrong(case, 'weights')} Return what multiplies "
                "the values."
            )


@Compared(
    right=MultiHead,
    read=output_of,
    slips={
        "Your scores are divided by the square root of E. A dot product inside a head has head_dim "
        "terms, not E.": changed(axes=(1, -1)),
        "Your scores are not divided. Divide them by the square root of head_dim.": changed(
            axes=()
        ),
        "Your scores are divided by head_dim. Divide them by its square root.": changed(
            axes=(-1, -1)
        ),
        "Your scores are divided by the square root of H. Divide them by that of "
        "head_dim.": changed(axes=(1,)),
        "Your scores are divided by the square root of the number of tokens. Divide them by that "
        "of head_dim.": changed(axes=(2,)),
        "Your softmax is divided, and its rows no longer sum to 1. Divide the scores, before the "
        "softmax.": changed(late=True),
        "You split the tokens and project each part. Project first: each feature of a head is made "
        "from all features of the token.": SplitFirst,
        "Your queries and keys have changed places. Multiply each query with all keys.": changed(
            use=("k_proj", "q_proj", "v_proj", "out_proj")
        ),
        "Your values do not come from v_proj.": Either(
            *(
                changed(use=("q_proj", "k_proj", name, "out_proj"))
                for name in ("k_proj", "q_proj", "")
            )
        ),
        "Query, key and value are the tokens themselves. Project the tokens first, and then "
        "split.": changed(use=("", "", "", "out_proj")),
        "The averages are merged, but out_proj is missing at the end.": changed(
            use=("q_proj", "k_proj", "v_proj", "")
        ),
        "Your averages use the columns of the weights. Multiply the values by weights, not by "
        "their transpose.": changed(columns=True),
        "Each head is right. On the way back you exchanged tokens and features, axes 2 and 3. "
        "Exchange heads and tokens, axes 1 and 2.": changed(merge=turned),
        "Your softmax runs over another axis than the keys. Let it run over the last axis.": Either(
            changed(dim=0), changed(dim=1), changed(dim=2)
        ),
        "Your split cuts the deck: head 0 holds whole tokens. Cut the features first, and then "
        "transpose.": Either(changed(split=cut), changed(split=cut, merge=pile)),
        "Each head is right, but the outputs are piled, not collected. Transpose back before you "
        "join them.": changed(merge=pile),
        "You have two heads, whatever H is. Make the number of heads H.": changed(split=in_two),
        "There is one head with all the features. Split query, key and value into H heads.": (
            changed(split=in_one)
        ),
        BEHIND: changed(merge=from_turns),
        EXCHANGED: changed(split=sizes_exchanged),
        "Your weights have the shape (N, L, H, H): each token compares its own heads with each "
        "other. Move the heads in front of the tokens.": changed(
            split=left_behind, merge=flattened
        ),
        "Head h has the features h, h + H, h + 2H and so on. Parameters that were trained "
        "elsewhere expect neighbouring features.": Either(
            changed(split=in_turn), changed(split=in_turn, merge=from_turns)
        ),
    },
    errors={
        **VIEWED,
        "mat1 and mat2 shapes": "Each projection needs (N, L, E). Project, split and transpose; at "
        "the end transpose, flatten and project.",
        "'_parameters'": "Call super().__init__() first.",
        "Module.__init__()": "Call super().__init__() first.",
        "batch2 tensor": "Transpose the keys, query @ key.mT, and not the values.",
        "must match the size": "Split query, key and value alike, and transpose the last two axes "
        "of the keys: query @ key.mT.",
        "'H'": "Store H in __init__, self.H = H, and use self.H everywhere else.",
        "positional arguments": "Pass the class itself, MultiHead, and not a layer made of it.",
        "is invalid for input of size": "Compute all sizes from E and H.",
    },
    otherwise=advised(
        "The shape is correct. Compare the projections, the split, the scores, the softmax, the "
        "merge and the last projection with those of the lesson, one after the other.",
        "With E = 12 and H = 3 it is correct.",
    ),
    misshapen="Return the output first, in the shape of the tokens (N, L, E), and then the "
    "weights.",
    axes=("sequence", "token", "feature"),
    also=check_weights,
    verified="With the same parameters, output and weights are those of nn.MultiheadAttention, for "
    "1, 2, 3 and 12 heads.",
)
def check_multi_head() -> Iterator[tuple[str, tuple]]:
    """Check a class for multi-head attention, made of E and H.

    Verified: the names and shapes of the projections, and the numbers of output and weights for
    four numbers of heads, in float64, with parameters that the check copies into the layer.

    Parameters
    ----------
    answer
        A subclass of ``nn.Module`` that is made of (E, H). Its ``forward`` takes tokens (N, L, E)
        and returns the output (N, L, E) and the weights (N, H, L, L).

    See Also
    --------
    torch.nn.MultiheadAttention : the same in PyTorch.
    """
    for embed_dim, heads in ((12, 3), (12, 1), (12, 12), (8, 2)):
        yield f"E = {embed_dim} and H = {heads}", (embed_dim, heads)


# --- a bug ----------------------------------------------------------------------------------------


def in_heads(split: Split = split_heads, merge: Merge = merge_heads, **steps: object) -> Split:
    """Return self-attention without projections."""

    def self_attend(x: Tensor, num_heads: int) -> Tensor:
        heads = split(x, num_heads)
        return merge(attend(heads, heads, heads, **steps)[0])

    return self_attend


@Compared(
    right=in_heads(),
    slips={
        "The heads are still behind the tokens, so each token attends to its own heads.": in_heads(
            left_behind, flattened
        ),
        "The heads have moved in front of the tokens and are never moved back. Transpose the "
        "output before you flatten it.": in_heads(merge=flattened),
        "Your split cuts the deck: head 0 holds whole tokens. Use a transpose.": Either(
            in_heads(cut), in_heads(cut, pile), in_heads(cut, flattened)
        ),
        "On the way back you piled the hands. Use a transpose there, too.": in_heads(merge=pile),
        "You exchanged heads and features, axes 2 and 3. Exchange tokens and heads, axes 1 and "
        "2.": Either(
            *(
                in_heads(lambda x, num_heads: left_behind(x, num_heads).mT, merge)
                for merge in (lambda heads: flattened(heads.mT), flattened)
            )
        ),
        "On the way back you exchanged tokens and features. Exchange heads and tokens, axes 1 and "
        "2.": in_heads(merge=turned),
        "Your scores are not divided by the square root of head_dim.": Either(
            in_heads(axes=()), in_heads(axes=(1, -1)), in_heads(axes=(2,)), in_heads(axes=(-1, -1))
        ),
        "There is one head with all the features. Cut the features into H heads first.": in_heads(
            in_one
        ),
        BEHIND: in_heads(merge=from_turns),
        EXCHANGED: in_heads(sizes_exchanged),
        "Head h has the features h, h + H, h + 2H and so on. `broken` gives it neighbouring "
        "features, and that is correct.": Either(
            in_heads(in_turn), in_heads(in_turn, from_turns), in_heads(in_turn, flattened)
        ),
    },
    errors={
        **VIEWED,
        "is invalid for input of size": "Compute all sizes from H and the shape of x.",
        "must match the size": "Move the heads in front of the tokens in query, key and value.",
    },
    otherwise=advised(
        "The shape is correct. Which axes does attention work on, and what do they mean here?"
    ),
    misshapen="Return the output in the shape of x, (N, L, E).",
    verified="Every head sees every token, and the numbers are correct for 1, 2, 3 and 12 heads.",
    axes=("sequence", "token", "feature"),
)
def check_mended_heads() -> Iterator[tuple[str, tuple]]:
    """Check self-attention in several heads, without projections.

    Verified: shape and numbers of the output, for four numbers of heads and two sizes.

    Parameters
    ----------
    answer
        A function of (x, H) that returns the output (N, L, E).

    See Also
    --------
    attnlab.MultiHeadAttention : the same with projections.
    """
    for size, heads in (((2, 5, 12), 3), ((2, 5, 12), 1), ((2, 5, 12), 12), ((1, 7, 6), 2)):
        yield f"x {size} and {heads} head{'s' * (heads > 1)}", (*randoms(size), heads)


# --- one matrix for all three ---------------------------------------------------------------------


def three(value: object) -> Tensor:
    """Return three tensors of one shape as one tensor."""
    wanted = "query, key and value, three tensors (N, H, L, head_dim)"
    if isinstance(value, Iterator):  # a map, which can be unpacked as well
        value = [*value]
    if isinstance(value, Tensor) and len(value) == 3:
        return value.detach()
    if isinstance(value, Tensor) and value.ndim == 5 and 3 in value.shape:
        wanted += ": the axis with the 3 comes first"
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise Wrong(voice.returned(voice.kind_of(value), wanted))
    if any(not isinstance(one, Tensor) or one.shape != value[0].shape for one in value):
        got = ", ".join(voice.kind_of(one) for one in value)
        raise Wrong(voice.returned(got, wanted))
    return torch.stack(list(value)).detach()


def by_chunks(split: Split = split_heads, order: Sequence[int] = (0, 1, 2)) -> Split:
    """Return a function that takes the three apart first, and then splits each."""
    return lambda x, num_heads: torch.stack(
        [split(x.chunk(3, dim=-1)[one], num_heads) for one in order]
    )


def viewed(*sizes: str, order: str) -> Split:
    """Return a function that views the last axes so, and takes three tensors (N, H, L, d)."""

    def function(x: Tensor, num_heads: int) -> Tensor:
        size = {"N": len(x), "L": x.shape[1], "H": num_heads, "3": 3}
        size["d"] = x.shape[2] // (3 * num_heads)
        return x.reshape(*(size[one] for one in sizes)).permute(
            *("".join(sizes).index(one) for one in order)
        )

    return function


@Compared(
    right=by_chunks(),
    read=three,
    what="three tensors",
    slips={
        "Each head has its own query, key and value side by side, as in GPT-NeoX. Here all queries "
        "come first.": viewed(*"NLH3d", order="3NHLd"),
        "Neighbouring numbers became query, key and value. Here they belong to one query.": Either(
            viewed(*"NLHd3", order="3NHLd"), viewed(*"NLdH3", order="3NHLd")
        ),
        "You cut the sequences into three, not the features.": Either(
            viewed(*"3NLHd", order="3NHLd"), viewed(*"3NHLd", order="3NHLd")
        ),
        "Each of the three is correct, but your split cuts the deck: head 0 holds whole tokens.": (
            by_chunks(cut)
        ),
        "The heads still stand behind the tokens. Move them in front with a transpose.": Either(
            by_chunks(left_behind), viewed(*"NL3Hd", order="3NLHd")
        ),
        "Head h has the features h, h + H, h + 2H and so on of each of the three.": by_chunks(
            in_turn
        ),
        "The three are in another order. The queries come first, then the keys and then the "
        "values.": Either(*(by_chunks(order=order) for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1)))),
        "All three are the query.": by_chunks(order=(0, 0, 0)),
    },
    errors={"is invalid for input of size": "Compute all sizes from H and the shape of projected."},
    otherwise=advised(
        "Take the three apart first, and then split each as the lesson does.",
        "With 3 heads they are correct.",
    ),
    misshapen="Return query, key and value, (N, H, L, head_dim) each.",
    axes=("query, key or value", "sequence", "head", "token", "feature"),
    verified="Query, key and value hold the right numbers in every head, for two sizes.",
)
def check_three_in_one() -> Iterator[tuple[str, tuple]]:
    """Check how what one matrix has projected becomes query, key and value in heads.

    Verified: shapes and numbers, for two sizes.

    Parameters
    ----------
    answer
        A function of (projected, H), projected being (N, L, 3 * E) with the queries first, then the
        keys and then the values. It returns query, key and value, (N, H, L, head_dim) each.

    See Also
    --------
    torch.nn.MultiheadAttention : keeps its three matrices in one, ``in_proj_weight``.
    """
    for size, heads in (((2, 5, 36), 3), ((6, 4, 24), 2)):
        yield f"projected {size} and H = {heads}", (*randoms(size), heads)
