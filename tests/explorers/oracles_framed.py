"""What explorers must show whose frames are sent: each of these functions says it for one."""

import itertools
import math
from functools import cache as remember

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab import KeyValueCache, load_table
from attnlab.display.table import load_rows
from attnlab.explorers import Explorer
from attnlab.models.looking_back import SYMBOLS, load_looking_back, to_tokens
from tests.explorers.common import Truth, drawn

MODEL = remember(load_looking_back)
PROMPT = "KQZBMTARK"  # what the model of lesson 12 continues
TEXT = "KQZBMTAR|QZB|TARKQ|MTA"  # what it reads while it is trained
SENTENCE = "The cat sat on the mat".split()


@remember
def table(name: str) -> Tensor:
    return load_table(name).values.double()


rows_of = remember(load_rows)


def keys_used(weights: Tensor) -> Tensor:
    return torch.special.entr(weights).sum(dim=-1).exp().mean()


def pairs(left: Tensor, right: Tensor) -> list[Tensor]:
    return [*torch.stack([left, right], dim=-1).flatten()]


# --- lessons 1 and 2 ------------------------------------------------------------------------------


def row(explorer: Explorer) -> Truth:
    x, step = table("he_is_awesome.csv"), explorer.step
    place = ["He", "is", "awesome"].index(explorer.query)
    may = torch.arange(3) <= (2 if explorer.mask == "none" else place)
    raw = x @ x[place]
    scores = raw / 2
    masked = scores.masked_fill(~may, -torch.inf)
    positive, weights = masked.exp(), masked.softmax(-1)
    total, products, output, left = positive.sum(), weights[:, None] * x, weights @ x, masked[may]
    by_hand = [  # all numbers of the arithmetic, key by key or feature by feature
        [one for key, end in zip(x, raw, strict=True) for one in (*pairs(x[place], key), end)],
        [one for key in range(3) for one in (raw[key], 2, scores[key])],
        scores,
        [one for s, p in zip(masked, positive, strict=True) for one in [s, p][s == -torch.inf :]],
        [*positive, total],
        [one for key in range(3) for one in (positive[key], total, weights[key])],
        [one for f, end in zip(x.T, output, strict=True) for one in (*pairs(weights, f), end)],
    ][step - 1]
    said = [raw, [4, 2, *scores], [], [0] * (len(left) < 3), [total], [4, 6, weights.max(), 1]]
    cells = torch.cat([products.T, output[:, None]], dim=1).flatten()
    lines = {"raw": raw, "scores": scores, "mask": may, "positive": positive, "total": total}
    lines |= {"weights": weights, "output": output}
    made = list(lines)[step - 1]
    asked = (
        {"step": 6, "key": 2} if (explorer.query, explorer.mask) == ("awesome", "none") else None
    )
    return Truth(
        {**lines, "masked": masked, "products": products},
        [*said, output][step - 1],
        {"strips.rows.5.weights": weights, "strips.asked": asked},
        {"hand.lines": by_hand}
        | {"strips.rows": [*raw, *scores, *left, *positive, *positive, total, *weights, 1, *cells]},
        given={"math": math, "query": x, "key": x, "value": x},
        made={made: lines[made]},
    )


DIVISORS = {"1": lambda _: 1, "sqrt(d_k)": math.sqrt, "d_k": float}
RATES = [2.0**power for power in range(-5, 10, 2)]


@remember
def raced(entries: int, d_k: int) -> Tensor:
    """Return accuracies, (3 divisors, 8 rates)."""
    rows = [one for one in rows_of("scaling_race.csv") if one["optimizer"] == "SGD"]
    kind = str(entries), str(d_k)
    found = {
        (one["divisor"], float(one["learning_rate"])): float(one["accuracy"])
        for one in rows
        if (one["entries"], one["d_k"]) == kind
    }
    assert len(found) == 24
    rows = [[found[name, rate] for rate in RATES] for name in DIVISORS]
    return torch.tensor(rows, dtype=torch.float64)


@remember
def loudness(entries: int, d_k: int) -> Tensor:
    """Return the lengths of the gradients of 100 queries, (3, 100), by hand."""
    stream = torch.Generator().manual_seed(0)
    names = torch.randn(32, 64, dtype=torch.float64, generator=stream)
    stream.manual_seed(0)
    query, key = names @ (torch.randn(2, 64, d_k, dtype=torch.float64, generator=stream) / 8)
    who = torch.rand(100, 32, generator=stream).argsort(dim=-1)[:, :entries]
    value = torch.eye(16).double()[torch.randint(16, (100, entries), generator=stream)]
    keys, found = key[who], []
    for number in (one(d_k) for one in DIVISORS.values()):
        p = torch.einsum("ne,nse->ns", query[who[:, 0]], keys).div(number).softmax(dim=-1)
        error = torch.einsum("ns,nsv->nv", p, value) - value[:, 0]
        slope = torch.einsum("nv,nsv->ns", 2 * error, value)  # of the loss, by weight
        slope = p * (slope - (p * slope).sum(dim=-1, keepdim=True)) / number  # by raw score
        found.append(torch.einsum("ns,nse->ne", slope, keys).norm(dim=-1))
    return torch.stack(found)


def scaling(explorer: Explorer) -> Truth:
    d_k, entries, place = explorer.d_k, explorer.entries, RATES.index(explorer.rate)
    table, lengths = raced(entries, d_k), loudness(entries, d_k)
    here, best = table[:, place], table.amax(dim=1)
    rates = [RATES[row.tolist().index(row.max())] for row in table]
    reach = (here.round(decimals=2) >= 0.9).tolist()
    listing = " and ".join(
        one for one, met in zip(("not divided", "√d_k", "d_k"), reach, strict=True) if met
    )
    said = [f"Here {listing} reach" if listing else "Here nobody reaches 0.9."]
    rate = explorer.rate
    written = [1, 1 / rate] if rate < 1 else [rate]
    half = [(one.sort().values.flip(0).cumsum(0) < one.sum() / 2).sum() + 1 for one in lengths]
    typical = [one.median() for one in lengths]
    told = zip([max(one, 0.001) for one in typical], half, strict=True)
    names, who = drawn(1, 32, 64), torch.arange(8).repeat(3, 1)
    w = drawn(2, 2, 64, d_k) / 8
    scores = (names @ w[0]) @ (names @ w[1]).T / d_k**0.5
    return Truth(
        {"accuracy": here, "best": best, "best_rates": tuple(rates), "lengths": lengths},
        [d_k, *written, entries, *here, 0.9],
        {"rates.values": table, "bad": not any(reach)},
        {"crowds.told": [one for pair in told for one in (*pair, 100)]},
        {"rates": here, "sizes": here},
        said=said,
        given={"names": names, "w": w, "who": who},
        made={"weights": scores[:1, :8].repeat(3, 1).softmax(dim=-1)},
    )


# --- lesson 5 -----------------------------------------------------------------------------------


def deal(explorer: Explorer) -> Truth:
    count, cut, pile = explorer.heads, explorer.split == "cut", explorer.merge == "pile"
    size, tokens, names = 32 // count, torch.arange(6), ["cat", "dog", "owl", "fox", "bat", "?"]
    x = torch.arange(192.0).view(1, 6, 32)
    heads = x.view(1, count, 6, size) if cut else x.unflatten(-1, (count, -1)).transpose(1, 2)
    hands = heads[0, :, :, 0] / size  # a card is named by its first number
    back = (lambda y: y.reshape(1, 6, 32)) if pile else (lambda y: y.transpose(1, 2).flatten(2))
    asked = back(heads)[0, :, ::size] / size  # the card that asked for each part of the output
    whom = torch.zeros(count, 6, 6)  # whom the hand of each answer can hear
    for head, hand in enumerate(hands):
        whom[head, :, (hand // count).long()] = 1
    heard = (
        torch.stack(
            [back(whom[None, :, :, token, None].expand(1, -1, 6, size))[0] for token in tokens],
            dim=-1,
        )[:, ::size]
        > 0
    )  # (6, heads, 6)
    wrong = (asked != torch.arange(6 * count).view(6, count)) | ~heard.all(dim=-1)
    right = torch.arange(6 * count).view(6, count).T
    askers = sorted({int(card) // count for card in asked[-1]})
    ears, told, said = heard[-1].any(dim=0), [], []
    if count > 1 and not wrong.any():
        told, said = [count], ["gives x again", "over all six tokens"]
    elif count > 1 and askers == [5]:
        pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
        share = sum(8.0 ** -(2 - int(ears[i]) - int(ears[j])) for i, j in pairs) / 10
        told, said = [share], ["gives x again", *(names[i] for i in range(5) if ears[i])]
    elif count > 1:
        told = [] if heard.all() else [heard[-1].sum(dim=-1).max()]
        said = ["does not give x", "the question", *(names[i] for i in askers[:-1])]
    return Truth(
        {"hands": hands, "output": asked, "heard": heard, "wrong_output": wrong},
        told,
        {
            "cards.hands": hands,
            "cards.wrong_hands": hands != right,
            "cards.asked": [[names[int(card) // count] for card in row] for row in asked.T],
            "cards.heard": heard.transpose(0, 1),
            "cards.wrong_output": wrong.T,
            "bad": bool(wrong.any()),
        },
        {"cards.parts": [end for h in range(count) for end in (h * size, h * size + size - 1)]},
        said=said,
        given={"x": x, "N": 1, "F": torch.nn.functional},
        made={"heads": heads, "output": back((heads @ heads.mT / size**0.5).softmax(-1) @ heads)},
    )


# --- lessons 8, 12 and 13 -------------------------------------------------------------------------


def cost(explorer: Explorer) -> Truth:
    n, count, d_model = explorer.n, explorer.heads, explorer.d_model
    size = {"float32": 4, "float16": 2}[explorer.dtype]
    memory, vectors = size * count * n * n, size * 3 * n * d_model
    attention, projections = 4 * n * n * d_model, 8 * n * d_model * d_model
    parts = [(memory, 4), (vectors, 2), (attention, 4), (projections, 2)]
    more = 2 if n == 2 * d_model else max(n / (2 * d_model), 2 * d_model / n)
    more_in = "Attention needs" if n > 2 * d_model else "projections need"
    return Truth(
        {"weight_bytes": memory, "qkv_bytes": vectors}
        | {"attention_flops": attention, "projection_flops": projections},
        [n, count, memory, 4, 4 * memory, more],
        {"squares.n": n, "table.head": ["n", str(n), str(2 * n), ""]},
        {"squares.label": [memory, 4 * memory]}
        | {"table.body": [number for p, by in parts for number in (p, by * p, by)]},
        {"memory": [memory, vectors], "flops": [attention, projections]},
        said=[f"stored in {explorer.dtype}", more_in],
        made={"memory": memory, "attention": attention, "projections": projections},
    )


def pieces(explorer: Explorer) -> Truth:
    cut, sign = explorer.cut, {"right": 1, "forgotten": 0, "wrong sign": -1}[explorer.factor]
    scores = torch.tensor([1, 3, 0, 2, -1, 3, 0.5, 2]).double()
    values = torch.tensor([6, 1, 8, 2, 4, 0, 9, 5]).double()
    parts = [(scores[:cut], values[:cut]), (scores[cut:], values[cut:])]
    tops = torch.stack([one.max() for one, _ in parts])
    totals = torch.stack([one.logsumexp(0) for one, _ in parts]) - tops
    outputs = torch.stack([one.softmax(0) @ value for one, value in parts]) * totals.exp()
    factors = (sign * (tops - 3)).exp()
    weights, far = scores.softmax(-1), bool(tops.min() < 3)
    right, wrong = weights @ values, far and sign < 1
    own = [one.softmax(0) * total for (one, _), total in zip(parts, totals.exp(), strict=True)]
    shrunk = torch.cat([one * factor for one, factor in zip(own, factors, strict=True)])
    whole, total, output = (scores - 3).exp().sum(), factors @ totals.exp(), factors @ outputs
    cells = torch.stack([torch.cat(own), shrunk, shrunk / shrunk.sum(), weights])
    assert (output / total).allclose(right) != wrong
    numbers = [tops.min(), 3, (tops.min() - 3).exp()] if far else [3, 1]
    numbers += [factors.max()] * (far and sign < 0) + [output / total]
    return Truth(
        {"tops": tops, "totals": totals.exp(), "outputs": outputs, "factors": factors}
        | {"top": 3.0, "total": total, "output": output / total, "terms": cells[:3]},
        [cut, *numbers, *[right] * wrong],
        {"row.cells": torch.cat([cells[:, :cut], torch.zeros(4, 1), cells[:, cut:]], dim=1)}
        | {"bad": wrong},
        {
            "kept.body": [
                *(*tops, 3, 3, *factors, *totals.exp(), total, whole),
                *(*outputs, output, right * whole, output / total, right),
            ]
        },
        said=["No error is raised" if wrong else "as for the whole row"],
        made={"output": output / total},
    )


@remember
def read(text: str) -> tuple[str, float, Tensor]:
    """Return what comes next, how likely, and the weights of the last token: no cache."""
    logits, weights = MODEL()(to_tokens(text)[None])
    chance, symbol = logits[0, -1].softmax(-1).max(-1)
    return SYMBOLS[symbol], chance.item(), weights[:, 0, 0, -1].double()


def cache(explorer: Explorer) -> Truth:
    step, kept, text = explorer.step, explorer.cache, PROMPT
    for _ in range(step):
        text += read(text)[0]
    guess, chance, weights = read(text)
    rows = {True: [9] + [1] * step, False: [*range(9, 10 + step)]}
    so_far, other = sum(rows[kept]), sum(rows[not kept])
    passes, place = torch.full((3, len(text)), step + 1.0), torch.arange(len(text))
    if kept:
        passes[1:] = place.sub(7).clamp(min=1)  # the tenth is new in pass 2
        passes[0, :-1] = float(step == 0)
    pad, best = (0, 15 - len(text)), weights == weights.max(dim=-1, keepdim=True).values
    return Truth(
        {"text": text, "rows": rows[kept][-1], "so_far": so_far, "guess": guess, "chance": chance}
        | {"made": passes.double(), "weights": weights},
        [step + 1, rows[kept][-1], len(text) - 1, so_far, other, chance]
        if step
        else [1, 9, chance],
        {"made.cells": F.pad(passes, pad).double(), "looks.cells": F.pad(weights, pad)}
        | {"looks.texts": [["●" * one for one in line] for line in F.pad(best, pad).tolist()]},
        {"made.texts": passes[passes > 0]},
        {"rows": [sum(rows[False]), sum(rows[True])]},
        said=[f"guesses {guess}"],
        given={"model": MODEL(), "to_tokens": to_tokens, "KeyValueCache": KeyValueCache},
        made={"chance": chance},
    )


def looking_back(explorer: Explorer) -> Truth:
    partner, position = explorer.partner, explorer.position
    model, tokens = MODEL(), to_tokens(TEXT)[None]
    x = model.symbol(tokens) + model.position.weight[: len(TEXT)]
    notes, looks = model.layers[0](model.norms[0](x), is_causal=True)
    notes[:, [3, partner]] = notes[:, [partner, 3]]
    found, weights = model.layers[1](model.norms[1](x + notes), is_causal=True)
    chances = model.guess(model.last_norm(x + notes + found))[0].softmax(dim=-1)
    second, chance = weights[0, 0, position], chances[position].max()
    guess = SYMBOLS[chances[position].argmax()]
    target = int(second.argmax())
    written = {3: partner, partner: 3}.get(target, target)
    first = looks[0, 0, written]
    source = int(first.argmax())
    pairs = itertools.pairwise(TEXT[: position + 1])
    known = [two for one, two in pairs if one == TEXT[position] != "|" != two]
    right = "cannot know" if not known else "is correct" if known[0] == guess else "be correct"
    shown = {"second": second, "first": first}
    places = {"target": target, "written": written, "source": source}
    moved = [written] if written != target else []
    return Truth(
        {**shown, **places, "guess": guess, "chance": chance},
        [position, 1, target, second.max(), *moved, 0, source, first.max(), chance],
        {f"looks.{name}": place for name, place in places.items()}
        | {f"looks.{name}": (one * 1000).round() / 1000 for name, one in shown.items()},
        said=[f"{TEXT[i].replace('|', 'bar')} at position {i}" for i in (position, target, source)]
        + [f"guesses {guess}", right],
        given={"model": model, "to_tokens": to_tokens, "SYMBOLS": SYMBOLS},
    )
