"""What only a layer has: heads that are cut and joined, and sides that are told apart."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import permutations

import torch
from torch import Tensor

from attnlab.clinic.call import Call
from attnlab.clinic.causes import CAUSES
from attnlab.clinic.evidence import Evidence
from attnlab.clinic.observe import Core
from attnlab.clinic.plan import SIZES
from attnlab.clinic.results import Fact, ask, held, wrong
from attnlab.clinic.sample import Sample, alike
from attnlab.clinic.search import Recipe
from attnlab.clinic.signature import PARTS

UNLIKE = (
    "Heads that share a key do not share the value of that key: keys and values are repeated in "
    "different orders."
)
REPEAT = "repeat both alike: repeat_interleave(groups, dim=1)."


def heads_told(call: Call, cores: list[Core]) -> Iterator[Fact]:
    """Yield what is wrong with how heads are cut, joined and shared, or that nothing is."""
    joined = []
    for core in cores:
        if core.sample.sizes.H < 2:
            continue
        if over_heads := _over_heads(call, core):
            yield from over_heads
            return
        yield from _cut(core, call)
        joined.append((yield from _joined(core, call)) and all(core.cut))
        yield from _groups(core)
        yield from _shared(core)
    if joined and all(joined):
        yield held("heads", "heads are cut from the features of each token and joined again")


def _over_heads(call: Call, core: Core) -> list[Fact]:
    """Return a finding if the tokens stand where the heads should: heads look at each other."""
    sizes, length = core.sample.sizes, call.plan.length
    if sizes.H != length or not sizes.L == sizes.S != length:
        return []
    sentence = (
        f"Heads look at each other instead of tokens: the table of scores is {sizes.L} × "
        f"{sizes.S}, the number of heads, for a text of {length} tokens."
    )
    advice = "move the heads in front of the tokens: transpose(1, 2)."
    return [wrong("head-mixing", sentence, advice=advice)]


def _cut(core: Core, call: Call) -> Iterator[Fact]:
    """Yield if a head holds pieces of some tokens; the windows of local attention are left out."""
    sizes, own = core.sample.sizes, (call.plan.length, call.plan.memory)
    H, L = sizes.H, sizes.L
    whole = (L in own, sizes.S in own, sizes.S in own)
    known = zip(PARTS, core.cut, whole, strict=True)
    cut = {side: right for side, right, sees_all in known if right is not None and sees_all}
    viewed, moved = ([side for side in cut if cut[side] is right] for right in (False, True))
    if not viewed:
        return
    words = f"The {H} heads are cut by a bare view, without a transpose"
    if moved:
        words = f"The heads of the {' and '.join(viewed)} are cut by a bare view, and those of the "
        words += f"{' and '.join(moved)} are not"
    size = L if "query" in viewed else sizes.S
    holders = torch.arange(H * size).div(H, rounding_mode="floor").view(H, size)
    yield wrong(
        "split-without-transpose",
        f"{words}: a head holds pieces of some tokens instead of a part of every token.",
        table("The token that each row of a head holds:", holders, "head", "row"),
    )


def _joined(core: Core, call: Call) -> Generator[Fact, None, bool]:
    """Compare what heads give with what the projection behind them gets, token by token.

    Return whether every head is there, whole.
    """
    output, merged = core.sample.output.double(), _behind(core)
    N, H, L, d = output.shape
    if merged.numel() % (N * L):
        return False
    if L not in (call.plan.length, call.plan.memory) or (merged.shape[0] not in (N, L, N * L)):
        return False
    wanted = output.transpose(1, 2).reshape(N, L, H * d)
    placed = [merged.double().reshape(N, L, -1)]
    placed.append(merged.double().reshape(L, N, -1).transpose(0, 1))  # the batch second
    if any(alike(rows.sort(-1).values, wanted.sort(-1).values) for rows in placed):
        return True
    rows = placed[0]
    if not alike(rows.flatten().sort().values, wanted.flatten().sort().values):
        yield from _heads_lost(core, placed)
        return False
    ordered = [part.sort(-1).values[0] for part in (rows, wanted)]
    if all(any(alike(row, place) for place in ordered[1]) for row in ordered[0]):
        sentence = (
            "What a query gathers comes out at another token: row i of the output is not that "
        )
        yield wrong("position-mixing", f"{sentence}of query i.")
        return False
    if advice := exchanged(core):
        sentence = "Where heads are joined, they and the sequences are taken for each other."
        yield wrong("batch-mixing", sentence, advice=advice)
        return False
    view = alike(merged.flatten(), output.flatten())
    how = "by a bare view, without a transpose" if view else "in a wrong order of dimensions"
    yield wrong(
        "merge-without-transpose",
        f"The {H} heads are joined {how}: an output row holds several positions of one head.",
        table(
            "The position that each part of an output row holds:",
            torch.arange(H * L).remainder(L).view(L, H),
            "row",
            "part",
        ),
    )
    return False


def _behind(core: Core) -> Tensor:
    """Return what stands behind the heads: what the next projection gets, or else the output."""
    return core.reply.output.detach() if core.merged is None else core.merged


def exchanged(core: Core) -> str:
    """Return how to mend it where the numbers of heads and of sequences are exchanged.

    Empty where the heads give what stands behind them in any order of dimensions, or not at all.
    """
    output, behind = core.sample.output, _behind(core).flatten()
    N, H = output.shape[:2]
    readings = {
        "": output,
        "view(N, H, L, d), not view(H, N, L, d).": output.reshape(H, N, *output.shape[2:]),
        "view(H, N, L, d), not view(N, H, L, d).": output.transpose(0, 1).reshape(output.shape),
    }
    for advice, read in readings.items():
        if any(alike(behind, read.permute(order).flatten()) for order in permutations(range(4))):
            return advice
    return ""


def _heads_lost(core: Core, placed: list[Tensor]) -> Iterator[Fact]:
    """Yield if heads are averaged, or left out, where they should stand side by side."""
    output, value = core.sample.output.double(), core.sample.value
    (H, d), total = (output.shape[1], output.shape[-1]), output.sum(dim=1)
    columns = output.transpose(1, 2).flatten(2).flatten(0, 1).T
    advice = f"keep every head: {CAUSES['merge-without-transpose'].fix}"
    for rows in placed:
        part = rows[..., :d]
        factor = (part * total).sum() / (total * total).sum() if part.shape == total.shape else 0
        if factor and alike(part, factor * total):
            sentence = f"The {H} heads are added up or averaged, and not joined side by side."
            if alike(value, value[:, :1].expand_as(value)):
                yield ask("head-mixing", sentence)
            else:
                yield wrong("head-mixing", sentence, advice=advice)
            return
        same = torch.tensor(
            [[alike(a, b) for b in columns] for a in rows.flatten(0, 1).T if a.any()]
        )
        lost = int((~same.any(dim=0)).unflatten(0, (H, d)).any(dim=-1).sum()) if len(same) else 0
        if lost and same.any(dim=1).all():
            sentence = f"Of the {H} heads {lost} are lost, whole or in part, where they are joined."
            yield wrong("head-mixing", sentence, advice=advice)
            return


def _groups(core: Core) -> Iterator[Fact]:
    """Compare which heads share keys with which share values."""
    groups = []
    for part in core.sample[1:3]:
        flat = part.transpose(0, 1).flatten(1)
        groups.append([[alike(head, beside) for beside in flat] for head in flat])
    several = [sum(map(sum, pairs)) > len(pairs) for pairs in groups]
    if all(several) and groups[0] != groups[1]:
        yield wrong("wrong-source", UNLIKE, advice=REPEAT)


def fewer_key_heads(call: Call, recipe: Recipe) -> Iterator[Fact]:
    """Give a function two heads of keys and values, and four of queries."""
    if call.plan.ndim < 4 or call.signature.options.call is not None:
        return
    sizes = replace(call.plan.sizes(SIZES[1]), H=4)
    parts = call.inputs(sizes)
    few = {side: part if side == "query" else part[:, :2] for side, part in parts.items()}
    output = call(few).output
    if output is None:
        return
    query, *pair = few.values()
    near = [part.repeat_interleave(2, dim=1) for part in pair]
    far = [part.repeat(1, 2, 1, 1) for part in pair]

    def gives(key: Tensor, value: Tensor) -> bool:
        """Return whether the recipe gives the output of repeated heads."""
        return recipe.gives(Sample(query, key, value, output, sizes))

    if gives(*near):
        yield held("groups", "with 2 heads of keys for 4 of queries, neighbours share a key")
    elif gives(near[0], far[1]) or gives(far[0], near[1]):
        yield wrong("wrong-source", UNLIKE, advice=REPEAT)


def _shared(core: Core) -> Iterator[Fact]:
    """Yield if all heads compute the same."""
    output = core.sample.output
    if output.abs().max() > 0 and alike(output, output[:, :1].expand_as(output)):
        yield wrong(
            "wrong-source",
            f"All {output.shape[1]} heads compute the same, from the same features.",
            table("What the heads give the first token:", output[0, :, 0, :5], "head", "feature"),
            advice="give every head its own part of the projections.",
        )


def table(caption: str, values: Tensor, row: str, column: str) -> Evidence:
    """Return the first rows and columns of some numbers as a table."""
    shown = values[:7, :7].double()
    names = (
        [f"{word} {place}" for place in range(size)]
        for word, size in zip((row, column), shown.shape, strict=True)
    )
    return Evidence(caption, shown, *map(tuple, names))
