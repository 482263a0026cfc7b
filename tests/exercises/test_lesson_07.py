"""The checks of lesson 7: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import split_heads
from attnlab.exercises import check_multi_head
from tests.exercises.verdicts import accepts, names

attention = F.scaled_dot_product_attention


class Base(nn.Module):
    def __init__(self, E, H, bias=False):
        super().__init__()
        self.H = H
        self.q_proj = nn.Linear(E, E, bias=bias)
        self.k_proj = nn.Linear(E, E, bias=bias)
        self.v_proj = nn.Linear(E, E, bias=bias)
        self.out_proj = nn.Linear(E, E, bias=bias)

    def scores(self, x):
        parts = (project(x) for project in (self.q_proj, self.k_proj, self.v_proj))
        return [part.unflatten(-1, (self.H, -1)).transpose(1, 2) for part in parts]


class ByLoop(Base):
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


class ByLetters(Base):
    """No transpose: the letters move the axes."""

    def forward(self, x):
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        query, key, value = (part.unflatten(-1, (self.H, -1)) for part in parts)
        scores = torch.einsum("nlhd,nshd->nhls", query, key) / query.shape[-1] ** 0.5
        weights = scores.softmax(-1)
        output = torch.einsum("nhls,nshd->nlhd", weights, value).flatten(-2)
        return [self.out_proj(output), weights]


class Narrow(ByLetters):
    """Projections for a single head."""

    def __init__(self, E, H):
        super().__init__(E, H)
        self.q_proj = self.k_proj = self.v_proj = nn.Linear(E // H, E // H, bias=False)


class Uninitialised(nn.Module):
    def __init__(self, E, H):
        self.q_proj = nn.Linear(E, E, bias=False)


class Untransposed(Base):
    def forward(self, x):
        query, key, value = self.scores(x)
        return (query @ key).softmax(-1) @ value, key


class FixedSize(Base):
    def forward(self, x):
        self.q_proj(x).view(len(x), x.shape[1], 2, 16)


class Averaged(ByLetters):
    def forward(self, x):
        output, weights = super().forward(x)
        return output, weights.mean(dim=1)


class Scores(ByLetters):
    def forward(self, x):
        output, weights = super().forward(x)
        return output, weights.log()


class OutputAlone(ByLetters):
    def forward(self, x):
        return super().forward(x)[0]


class Forgetful(Base):
    def forward(self, x):
        self.scores(x)


class NotProjected(Base):
    def forward(self, x):
        query, key, value = self.scores(x)
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        return (weights @ value).transpose(1, 2).flatten(2), weights


def in_steps(*, use="qkv", divide=None, finish=None):
    """Return a layer that takes these projections ("x" for none) and divides by this number."""

    class Steps(Base):
        def forward(self, x):
            heads = dict(zip("qkv", self.scores(x), strict=True))
            heads["x"] = x.unflatten(-1, (self.H, -1)).transpose(1, 2)
            query, key, value = (heads[one] for one in use)
            weights = (query @ key.mT / (divide or query.shape[-1] ** 0.5)).softmax(-1)
            if finish:
                return self.out_proj(finish(weights, value).reshape(x.shape)), weights
            return self.out_proj((weights @ value).transpose(1, 2).flatten(2)), weights

    return Steps


class InTurn(Base):
    """Head h gets the features h, h + H and so on, and the merge is that of the lesson."""

    def forward(self, x):
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        query, key, value = (in_turn(part, self.H) for part in parts)
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        return self.out_proj(joined(weights @ value)), weights


class DividedLate(Base):
    def forward(self, x):
        query, key, value = self.scores(x)
        weights = (query @ key.mT).softmax(-1) / query.shape[-1] ** 0.5
        return self.out_proj(joined(weights @ value)), weights


class SplitFirst(Base):
    """Each head projects its own part of the tokens, by its own block of the matrices."""

    def forward(self, x):
        heads = halves(x, self.H).unbind(1)
        d = heads[0].shape[-1]
        query, key, value = (
            torch.stack(
                [
                    part @ one.weight[h * d : (h + 1) * d, h * d : (h + 1) * d].T
                    for h, part in enumerate(heads)
                ],
                dim=1,
            )
            for one in (self.q_proj, self.k_proj, self.v_proj)
        )
        weights = (query @ key.mT / d**0.5).softmax(-1)
        return self.out_proj(joined(weights @ value)), weights


class ProjectedLate(Base):
    def forward(self, x):
        return self.q_proj(halves(x, self.H)), x


class WeightsFirst(ByLetters):
    def forward(self, x):
        return super().forward(x)[::-1]


class ByBatches(Base):
    """The heads become part of the batch."""

    def forward(self, x):
        N, L, E = x.shape
        query, key, value = (part.reshape(-1, L, E // self.H) for part in self.scores(x))
        weights = torch.bmm(query, key.mT).div((E // self.H) ** 0.5).softmax(-1)
        answers = torch.bmm(weights, value).view(N, self.H, L, -1)
        return self.out_proj(torch.cat([*answers.unbind(1)], -1)), weights.view(N, self.H, L, L)


class ByTorch(Base):
    """The output by the fused function, the weights by hand."""

    def forward(self, x):
        query, key, value = self.scores(x)
        weights = torch.softmax(query @ key.transpose(-2, -1) * query.size(-1) ** -0.5, -1)
        answers = attention(query, key, value).permute(0, 2, 1, 3)
        return self.out_proj(answers.reshape(x.shape)), weights


class NotMerged(Base):
    def forward(self, x):
        query, key, value = self.scores(x)
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        return self.out_proj(weights @ value), weights


class ByView(Base):
    def forward(self, x):
        query, key, value = self.scores(x)
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
        answers = (weights @ value).transpose(1, 2)
        return self.out_proj(answers.view(x.shape)), weights


class Small(nn.Module):
    def __init__(self, E, H):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(E, E // H, bias=False))


class Empty(nn.Module):
    def __init__(self, E, H):
        super().__init__()

    def forward(self, x):
        """Tokens (N, L, E) -> output (N, L, E) and weights (N, H, L, L)."""


class Fixed(ByLetters):
    def __init__(self, E, H):
        super().__init__(E, 3 if H == 1 else H)


def mended(x, H):
    return torch.cat([attention(part, part, part) for part in x.chunk(H, dim=-1)], dim=-1)


def by_transposes(x, H):
    heads = x.unflatten(-1, (H, -1)).transpose(1, 2)
    return attention(heads, heads, heads).transpose(1, 2).flatten(2)


def by_broken(x, H):
    heads = x.unflatten(-1, (H, -1))
    return attention(heads, heads, heads).flatten(2)


def only_there(x, H):
    heads = x.unflatten(-1, (H, -1)).transpose(1, 2)
    return attention(heads, heads, heads).flatten(2)


def by_view(x, H):
    heads = x.unflatten(-1, (H, -1)).transpose(1, 2)
    weights = (heads @ heads.mT / heads.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ heads).transpose(1, 2).view(x.shape)


def by_filling(x, H):
    d, result = x.shape[-1] // H, torch.empty_like(x)
    for h in range(H):
        part = x[..., h * d : (h + 1) * d]
        result[..., h * d : (h + 1) * d] = attention(part, part, part)
    return result


def between(x, H, split, merge, root=None):
    """Attention after a split and before a merge."""
    heads = split(x)
    weights = (heads @ heads.mT / (root or heads.shape[-1]) ** 0.5).softmax(dim=-1)
    return merge(weights @ heads)


def halves(x, H):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def in_turn(x, H):
    return x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2)


def joined(heads):
    return heads.transpose(1, 2).flatten(2)


def by_permute(x, H):
    N, L, _ = x.shape
    return x.view(N, L, 3, H, -1).permute(2, 0, 3, 1, 4)


def by_slices(x, H):
    E = x.shape[-1] // 3
    parts = x[..., :E], x[..., E : 2 * E], x[..., 2 * E :]
    return [torch.stack(part.chunk(H, dim=-1), dim=1) for part in parts]


def with_heads(x, H, axis):
    heads = [part.unflatten(-1, (H, -1)).transpose(1, 2) for part in x.chunk(3, dim=axis)]
    return tuple(heads)


test_accepts = accepts({
    "check_multi_head": [
        ByLoop, ByLetters, ByBatches, ByTorch, lambda E, H: ByLoop(E, H).float()
    ],
    "check_mended_heads": [mended, by_transposes, by_filling],
    "check_three_in_one": [
        by_permute,
        by_slices,
        lambda x, H: with_heads(x, H, -1),
        lambda x, H: (halves(part, H) for part in x.chunk(3, dim=-1)),
        lambda x, H: map(lambda part: split_heads(part, H), x.chunk(3, dim=-1)),
        lambda x, H: torch.stack(x.chunk(3 * H, -1), 1).unflatten(1, (3, H)).transpose(0, 1),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_multi_head": {
        ("The weight of q_proj has the shape (4, 4)", "nn.Linear(E, E)"): Narrow,
        "Call super().__init__() first": Uninitialised,
        "Transpose the keys": Untransposed,
        "Compute all sizes from E and H": FixedSize,
        "Pass the class itself": ByLetters(12, 3),
        "The layer has no nn.Linear named q_proj": lambda E, H: nn.Linear(E, E),
        "q_proj has a bias. Make all four with bias=False.": lambda E, H: ByLoop(E, H, bias=True),
        "one matrix for all heads": Small,
        "`forward` returns None. Return the output and the weights.": Forgetful,
        "`forward` returns a tensor of shape (2, 5, 12). Return two tensors": OutputAlone,
        ("the weights have the shape (2, 5, 5) instead of (2, 3, 5, 5)", "one table"): Averaged,
        ("With E = 12 and H = 3, the weights are wrong", "what multiplies the values"): Scores,
        "out_proj is missing at the end": NotProjected,
        "Compare the projections, the split": in_steps(use="kkv"),
        "queries and keys have changed places": in_steps(use="kqv"),
        "values do not come from v_proj": in_steps(use="qkk"),
        "Your values do not come from v_proj": in_steps(use="qkx"),
        "Project the tokens first": in_steps(use="xxx"),
        "the square root of the number of tokens": in_steps(divide=5**0.5),
        "With E = 12 and H = 3 it is correct. Does your code contain a fixed size?": in_steps(
            divide=4**0.5
        ),
        "the columns of the weights": in_steps(
            finish=lambda weights, value: (weights.mT @ value).transpose(1, 2)
        ),
        "you exchanged tokens and features, axes 2 and 3": in_steps(
            finish=lambda weights, value: (weights @ value).mT
        ),
        "Return the output first, in the shape of the tokens": WeightsFirst,
        "merge before out_proj": NotMerged,
        "Each projection needs (N, L, E). Project before you split": ProjectedLate,
        "Head h has the features h, h + H, h + 2H": InTurn,
        "Divide the scores, before the softmax": DividedLate,
        "Project first: each feature of a head is made from all features": SplitFirst,
        "do not lie side by side in memory. Use reshape or flatten.": ByView,
        "With E = 12 and H = 1, the output": Fixed,
        "a tensor of shape (12, 3). Return the layer, an nn.Module.": lambda E, H: torch.ones(E, H),
    },
    "check_mended_heads": {
        "each token attends to its own heads": by_broken,
        ("the shape (2, 3, 20) instead of (2, 5, 12)", "never moved back"): only_there,
        "Use reshape or flatten.": by_view,
        "Does your code contain a fixed size?": lambda x, H: by_transposes(x, 3 if H == 1 else H),
        "Which axes does attention work on": lambda x, H: x,
        "one head with all the features": lambda x, H: attention(x, x, x),
        "you exchanged tokens and features": lambda x, H: between(
            x, H, lambda x: halves(x, H), lambda heads: heads.mT.reshape(x.shape)
        ),
        "not divided by the square root of head_dim": lambda x, H: between(
            x, H, lambda x: halves(x, H), joined, root=x.shape[1]
        ),
        "Head h has the features h, h + H": lambda x, H: between(
            x, H, lambda x: in_turn(x, H), joined
        ),
        "Compute all sizes from H and the shape of x": lambda x, H: x.view(len(x), -1, 2, 16),
        "Move the heads in front of the tokens in query, key and value": lambda x, H: attention(
            halves(x, H), *[x.unflatten(-1, (H, -1))] * 2
        ),
        ("(2, 15, 4) instead of (2, 5, 12)", "in the shape of x"): lambda x, H: between(
            x, H, lambda x: halves(x, H), lambda heads: heads.flatten(1, 2)
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
