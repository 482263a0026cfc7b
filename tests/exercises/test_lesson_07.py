"""The checks of lesson 7: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import split_heads
from attnlab.exercises import check_multi_head
from tests.exercises.verdicts import accepts, names

attention = F.scaled_dot_product_attention


def halves(x, H):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def in_turn(x, H):
    return x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2)


def joined(heads):
    return heads.transpose(1, 2).flatten(2)


# --- a layer --------------------------------------------------------------------------------------


class Layer(nn.Module):
    """A correct layer, in steps that can be exchanged."""

    def __init__(self, E, H, bias=False, size=None):
        super().__init__()
        self.H = H
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(E, size or E, bias=bias))

    def forward(self, x):
        query, key, value = self.heads(x)
        weights = self.weigh(query, key)
        return self.out_proj(self.merge(weights, value)), weights

    def heads(self, x, split=halves):
        return [split(project(x), self.H) for project in (self.q_proj, self.k_proj, self.v_proj)]

    def weigh(self, query, key):
        return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)

    def merge(self, weights, value):
        return joined(weights @ value)


def changed(**steps):
    """Return the layer with some steps exchanged."""
    return type("Changed", (Layer,), steps)


def returning(change):
    """Return a layer that returns something else, made of output and weights."""
    return changed(forward=lambda self, x: change(*Layer.forward(self, x)))


def attending(names):
    """Return a layer whose query, key and value are these; x stands for the tokens themselves."""

    def heads(self, x):
        parts = dict(zip("qkvx", [*Layer.heads(self, x), halves(x, self.H)], strict=True))
        return [parts[name] for name in names]

    return changed(heads=heads)


class ByLoop(Layer):
    """A loop over the rows of each head in the three matrices."""

    def forward(self, x):
        outputs, tables = [], []
        weights = (one.weight.chunk(self.H) for one in (self.q_proj, self.k_proj, self.v_proj))
        for W_q, W_k, W_v in zip(*weights, strict=True):
            query, key, value = x @ W_q.T, x @ W_k.T, x @ W_v.T
            table = torch.softmax(query @ key.mT / W_q.shape[0] ** 0.5, dim=-1)
            outputs.append(table @ value)
            tables.append(table)
        return self.out_proj(torch.cat(outputs, dim=-1)), torch.stack(tables, dim=1)


class ByLetters(Layer):
    """No transpose: the letters move the axes."""

    def forward(self, x):
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        query, key, value = (part.unflatten(-1, (self.H, -1)) for part in parts)
        scores = torch.einsum("nlhd,nshd->nhls", query, key) / query.shape[-1] ** 0.5
        weights = scores.softmax(-1)
        output = torch.einsum("nhls,nshd->nlhd", weights, value).flatten(-2)
        return [self.out_proj(output), weights]


class Narrow(Layer):
    """Projections for a single head."""

    def __init__(self, E, H):
        super().__init__(E, H)
        self.q_proj = self.k_proj = self.v_proj = nn.Linear(E // H, E // H, bias=False)


class Uninitialised(nn.Module):
    def __init__(self, E, H):
        self.q_proj = nn.Linear(E, E, bias=False)


class Empty(nn.Module):
    def __init__(self, E, H):
        super().__init__()

    def forward(self, x):
        """Tokens (N, L, E) -> output (N, L, E) and weights (N, H, L, L)."""


class NotProjected(Layer):
    def forward(self, x):
        query, key, value = self.heads(x)
        return self.merge(weights := self.weigh(query, key), value), weights


class SplitFirst(Layer):
    """Each head projects its own part of the tokens, by its own block of the matrices."""

    def heads(self, x):
        d, parts = x.shape[-1] // self.H, halves(x, self.H)
        own = [slice(h * d, (h + 1) * d) for h in range(self.H)]
        return [
            torch.stack([parts[:, h] @ weight[one, one].T for h, one in enumerate(own)], dim=1)
            for weight in (self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)
        ]


# --- heads without projections --------------------------------------------------------------------


def mended(x, H):
    return torch.cat([attention(part, part, part) for part in x.chunk(H, dim=-1)], dim=-1)


def between(merge=joined, split=halves, root=None):
    """Return attention after a split and before a merge."""

    def function(x, H):
        heads = split(x, H)
        weights = (heads @ heads.mT / (root or heads.shape[-1]) ** 0.5).softmax(dim=-1)
        return merge(weights @ heads)

    return function


# --- one matrix for all three ---------------------------------------------------------------------


def by_permute(x, H):
    N, L, _ = x.shape
    return x.view(N, L, 3, H, -1).permute(2, 0, 3, 1, 4)


def by_slices(x, H):
    E = x.shape[-1] // 3
    parts = x[..., :E], x[..., E : 2 * E], x[..., 2 * E :]
    return [torch.stack(part.chunk(H, dim=-1), dim=1) for part in parts]


test_accepts = accepts({
    "check_multi_head": [
        ByLoop, ByLetters, lambda E, H: Layer(E, H).float()
    ],
    "check_mended_heads": [mended, between()],
    "check_three_in_one": [
        by_permute,
        by_slices,
        lambda x, H: (halves(part, H) for part in x.chunk(3, dim=-1)),
        lambda x, H: map(lambda part: split_heads(part, H), x.chunk(3, dim=-1)),
        lambda x, H: torch.stack(x.chunk(3 * H, -1), 1).unflatten(1, (3, H)).transpose(0, 1),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_multi_head": {
        ("The weight of q_proj has the shape (4, 4)", "nn.Linear(E, E)"): Narrow,
        "Call super().__init__() first": Uninitialised,
        "Transpose the keys": changed(weigh=lambda self, query, key: (query @ key).softmax(-1)),
        "You have two heads, whatever H is": changed(
            heads=lambda self, x: Layer.heads(self, x, lambda part, _H: halves(part, 2))
        ),
        "There is one head with all the features": changed(
            heads=lambda self, x: Layer.heads(self, x, lambda part, _H: part[:, None])
        ),
        "puts the heads behind the features": changed(
            merge=lambda self, w, v: (w @ v).permute(0, 2, 3, 1).flatten(2)
        ),
        "Your split exchanges two sizes": changed(
            heads=lambda self, x: Layer.heads(
                self, x, lambda part, H: part.view(2, 5, 12 // H, H).transpose(1, 2)
            )
        ),
        "Compute all sizes from E and H": changed(heads=lambda self, x: x.view(2, 5, 2, 16)),
        "Pass the class itself": ByLetters(12, 3),
        "The layer has no nn.Linear named q_proj": lambda E, H: nn.Linear(E, E),
        "q_proj has a bias. Make all four with bias=False.": lambda E, H: ByLoop(E, H, bias=True),
        "one matrix for all heads": lambda E, H: Layer(E, H, size=E // H),
        "`forward` returns None. Return the output and the weights.": (
            returning(lambda output, weights: None)
        ),
        "`forward` returns a tensor of shape (2, 5, 12). Return two tensors": (
            returning(lambda output, weights: output)
        ),
        ("the weights have the shape (2, 5, 5) instead of (2, 3, 5, 5)", "one table"): (
            returning(lambda output, weights: (output, weights.mean(dim=1)))
        ),
        ("With E = 12 and H = 3, the weights are wrong", "what multiplies the values"): (
            returning(lambda output, weights: (output, weights.log()))
        ),
        "out_proj is missing at the end": NotProjected,
        "Compare the projections, the split": attending("kkv"),
        "queries and keys have changed places": attending("kqv"),
        "values do not come from v_proj": attending("qkk"),
        "Your values do not come from v_proj": attending("qkx"),
        "Project the tokens first": attending("xxx"),
        "the square root of the number of tokens": changed(
            weigh=lambda self, query, key: (query @ key.mT / 5**0.5).softmax(-1)
        ),
        "With E = 12 and H = 3 it is correct. Does your code contain a fixed size?": changed(
            weigh=lambda self, query, key: (query @ key.mT / 4**0.5).softmax(-1)
        ),
        "the columns of the weights": changed(
            merge=lambda self, weights, value: joined(weights.mT @ value)
        ),
        "you exchanged tokens and features, axes 2 and 3": changed(
            merge=lambda self, weights, value: (weights @ value).mT.reshape(2, 5, 12)
        ),
        "Return the output first, in the shape of the tokens": returning(
            lambda output, weights: (weights, output)
        ),
        "at the end transpose, flatten and project": changed(
            merge=lambda self, weights, value: (weights @ value).flatten(2)
        ),
        "Each projection needs (N, L, E). Project, split": changed(
            heads=lambda self, x: self.q_proj(halves(x, self.H))
        ),
        "Split query, key and value alike": changed(
            heads=lambda self, x: [*Layer.heads(self, x)[:2], self.v_proj(x)]
        ),
        "self.H = H, and use self.H everywhere else": changed(heads=lambda self, x: halves(x, H)),  # noqa: F821
        "Head h has the features h, h + H, h + 2H": changed(
            heads=lambda self, x: Layer.heads(self, x, in_turn)
        ),
        "Divide the scores, before the softmax": changed(
            weigh=lambda self, query, key: (query @ key.mT).softmax(-1) / query.shape[-1] ** 0.5
        ),
        "Project first: each feature of a head is made from all features": SplitFirst,
        "do not lie side by side in memory. Use reshape or flatten.": changed(
            merge=lambda self, weights, value: (weights @ value).transpose(1, 2).view(2, 5, 12)
        ),
        "With E = 12 and H = 1, the output": lambda E, H: Layer(E, 3 if H == 1 else H),
        "a tensor of shape (12, 3). Return the layer, an nn.Module.": lambda E, H: torch.ones(E, H),
    },
    "check_mended_heads": {
        "each token attends to its own heads": between(
            lambda heads: heads.flatten(2), lambda x, H: x.unflatten(-1, (H, -1))
        ),
        ("the shape (2, 3, 20) instead of (2, 5, 12)", "never moved back"): between(
            lambda heads: heads.flatten(2)
        ),
        "Use reshape or flatten.": between(lambda heads: heads.transpose(1, 2).view(2, 5, 12)),
        "Does your code contain a fixed size?": lambda x, H: mended(x, 3 if H == 1 else H),
        "Which axes does attention work on": lambda x, H: x,
        "one head with all the features": lambda x, H: attention(x, x, x),
        "you exchanged tokens and features": between(
            lambda heads: heads.mT.reshape(2, 5, 12)
        ),
        "not divided by the square root of head_dim": between(root=5),
        "Head h has the features h, h + H": between(split=in_turn),
        "puts the heads behind the features": between(
            lambda heads: heads.permute(0, 2, 3, 1).flatten(2)
        ),
        "Your split exchanges two sizes": between(
            split=lambda x, H: x.view(*x.shape[:2], x.shape[2] // H, H).transpose(1, 2)
        ),
        "Compute all sizes from H and the shape of x": lambda x, H: x.view(len(x), -1, 2, 16),
        "Move the heads in front of the tokens in query, key and value": lambda x, H: attention(
            halves(x, H), *[x.unflatten(-1, (H, -1))] * 2
        ),
        ("(2, 15, 4) instead of (2, 5, 12)", "in the shape of x"): between(
            lambda heads: heads.flatten(1, 2)
        ),
    },
    "check_three_in_one": {
        "Your function returned a tuple of length 2. Return query, key": lambda x, H: (x, x),
        ("raises", "Compute all sizes from H and the shape of"): lambda x, H: by_permute(x, 3),
        (
            "the shape (3, 6, 4, 4, 2) instead of (3, 6, 2, 4, 4)",
            "query, key and value, (N, H, L, head_dim) each",
        ): lambda x, H: by_slices(x, 4 if H == 2 else H),
        "You cut the sequences into three": lambda x, H: x.reshape(3, len(x), H, x.shape[1], -1),
        "Take the three apart first": lambda x, H: tuple(by_permute(x, H) + 1),
        "the axis with the 3 comes first": lambda x, H: by_permute(x, H).transpose(0, 1),
        "All three are the query.": lambda x, H: (by_permute(x, H)[0],) * 3,
    },
})  # fmt: skip


def test_an_empty_class_is_no_answer_yet():
    assert not check_multi_head(Empty).done
