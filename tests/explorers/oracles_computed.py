"""What explorers must show whose numbers are computed where something is dragged or typed."""

from functools import cache as remember
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from attnlab import explorers as ex
from attnlab.explorers import Explorer
from attnlab.layers.positions import rotate
from attnlab.models.meanings import lean, vectors_of
from attnlab.models.pretrained import PretrainedEncoder, load_encoder, load_layer
from attnlab.models.store import load_tensors
from tests.explorers.common import Truth, numbers_in
from tests.explorers.oracles_framed import SENTENCE, pairs, rows_of, table

LAYER = remember(load_layer)
WATER_WORDS = "ocean sea tide lagoon marsh reef shoreline delta wave waves surf pier"
MONEY_WORDS = (
    "finance market business trade cost income budget currency dollars economy cash purchase"
)


def look_up(explorer: Explorer) -> Truth:
    (right, up), tau, legs = explorer.query, explorer.temperature, torch.tensor([4.0, 2, 8])
    scores = torch.tensor([right, up, -right]).double() / tau
    weights = scores.softmax(-1)
    output = weights @ legs.double()
    low, middle, high = weights.sort().values.tolist()
    said = "alone" if middle + low <= 0.01 else "plain average of all" if high - low < 0.01 else ""
    least = ("cat", "bird", "spider")[weights.argmin()]
    said = said or (f", in which {least} gets nearly nothing" if low < 0.01 else "all three values")
    return Truth(
        {"scores": scores, "weights": weights, "output": output},
        [*pairs(weights, legs), output],
        said=[said],
        code=explorer.data["words"]["code"].format(right=right, up=up, temperature=tau),
        made={"weights": weights, "output": output[None]},
    )


def masks(explorer: Explorer) -> Truth:
    """Weights by the rules of the lesson, the influence by torch.func, and what is said of both."""
    pads, kind, fill, told = (
        explorer.padding,
        explorer.mask,
        explorer.fill,
        explorer.data["words"],
    )
    vectors = torch.cat([torch.zeros(pads, 5), table("the_cat_sat_on_the_mat.csv")[: 6 - pads]])
    may = torch.ones(6, 6).bool()
    if causal := kind in ("causal", "both"):
        may &= may.tril()
    if kind in ("padding", "both"):
        may &= torch.arange(6) >= pads
    for i, j in explorer.toggled:
        may[i, j] ^= True

    def weights_of(z: Tensor) -> Tensor:
        scores = z @ z.mT / 5**0.5
        if fill in ("-1e9", "0"):
            return torch.where(may, scores, float(fill)).softmax(-1)
        if fill in ("0 after", "divide again"):
            kept = torch.where(may, scores.softmax(-1), 0)
            return kept if fill == "0 after" else kept / kept.sum(-1, keepdim=True)
        shares = torch.where(may, scores, -torch.inf).softmax(-1)
        return shares if fill == "-inf" else torch.where(may, shares, 0)

    weights = weights_of(vectors.double())
    influence = torch.autograd.functional.jacobian(
        lambda z: weights_of(z) @ z, vectors.double()
    ).norm(dim=(1, 3))
    empty, apart = (~may.any(-1)).nonzero().flatten().tolist(), ~torch.eye(6).bool()
    leaks = int((influence.gt(1e-6) & ~may & apart).sum())
    opened = [(i, j) for i, j in explorer.toggled if may[i, j]]
    tokens = ["<pad>"] * pads + SENTENCE[: 6 - pads]
    said = [
        f"“{tokens[i]}” now sees "
        + (f"the later {'word' if j >= pads else 'token'}" if j > i and causal else "padding.")
        for i, j in opened[:1]
    ]
    numbers: list[float] = [len(opened) - 1] * (len(opened) > 2)
    taken = [weights[5, :pads].sum() * may[5, :pads].any()] if pads else []
    taken = [share for share in taken if share]
    rows = (
        [empty[0], empty[-1]]
        if len(empty) > 2 and empty[-1] - empty[0] == len(empty) - 1
        else empty
    )
    rows = rows * (len(empty) < 6)
    open_rows = [i for i in range(6) if i not in empty]
    whole = [weights[i].sum() for i in open_rows[:1]]
    if may.all():
        said += ["Every output depends on all six tokens."]
        numbers += taken
        assert (influence[apart] > 0.01).all()
    elif fill == "0":
        kept = (weights * ~may).sum(-1)
        numbers += [0, max(kept[open_rows] if open_rows else kept)] + [leaks] * (leaks > 0)
        assert leaks == (~may & apart).sum()
    elif fill == "0 after":
        sums = weights.sum(-1)
        least = min(open_rows, key=lambda i: round(sums[i].item(), 8), default=None)
        short = [least, sums[least]] if open_rows else []
        numbers += [0] + [leaks] * (leaks > 0) + short
        said += [f"“{tokens[least]}” (row"] * bool(open_rows)
        assert (weights[~may] == 0).all()
    elif not empty:
        said += ["nfluence map is the mask", "every row adds up to 1."]
        numbers += [1, *taken]
        assert not leaks
        assert (influence[may & apart] > 0.01).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(6).double())
    elif fill in ("-inf", "divide again"):
        said += ["every gradient is NaN."]
        numbers += [*rows, 0, 0, *whole, 0]
        assert influence.isnan().all()
    elif fill == "-1e9":
        said += ["an average over all six tokens"]
        numbers += [*rows, *whole]
        torch.testing.assert_close(weights[empty], torch.full_like(weights[empty], 1 / 6))
    else:
        said += ["nfluence map is the mask", "gives 0."]
        numbers += [1, 0]
        assert not leaks
    # a token hidden from itself: the map is the mask elsewhere
    itself = bool((influence.gt(1e-6) & ~may).diagonal().any())
    if any("nfluence map" in one for one in said):
        said += ["Off the diagonal, the"] * itself + ["The influence"] * (not itself)
    code = told["code"]
    mask = code[kind].format(padding=pads)
    lines = [code["start"].format(padding=pads, words=6 - pads, sentence="", mask=mask)]
    if explorer.toggled:
        sides = [str(side)[1:-1] for side in zip(*explorer.toggled, strict=True)]
        lines.append(code["toggled"].format(rows=sides[0], columns=sides[1]))
    return Truth(
        {"weights": weights, "influence": influence, "mask": may, "empty_rows": empty},
        numbers,
        said=said,
        code="\n".join([*lines, code["rules"][fill], code["end"]]),
        given={"x": table("the_cat_sat_on_the_mat.csv").double()},
        made={"weights": weights, "influence": influence},
    )


def rotary(explorer: Explorer) -> Truth:
    at, key_at, distances = explorer.query, explorer.key, torch.arange(-24, 25).double()
    speeds = explorer.base ** (-torch.arange(4).double() / 4)
    query, key = torch.exp(1j * at * speeds), torch.exp(1j * (key_at * speeds - 0.5))
    score, ways = (query * key.conj()).real.sum(), 25 - abs(at - key_at)
    sizes = {"pairs": 4, "features": 8, "places": 25, "base": explorer.base}
    return Truth(
        {"query": torch.view_as_real(query), "key": torch.view_as_real(key), "score": score}
        | {"curve": (torch.outer(distances, speeds) + 0.5).cos().sum(-1)},
        [at, key_at, at, key_at, at - key_at, score, *[ways] * (ways > 1)],
        code=explorer.data["words"]["code"].format(query=at, key=key_at, **sizes),
        given={"rotate": rotate},
        made={"score": score},
    )


# --- trained models -------------------------------------------------------------------------------


def asked(explorer: Explorer, tokens: list[str]) -> int:
    return explorer.word if explorer.word < len(tokens) else len(tokens) - 2


def name_of(tokens: list[str], i: int) -> str:
    name = tokens[i] if tokens[i].startswith("[") else f"“{tokens[i]}”"
    return f"{name} at {i}" if tokens.count(tokens[i]) > 1 else name


def most_of(tokens: list[str], row: Tensor, asking: int, among: range, kind: str) -> str:
    """Return the names of those who get most of a row, or how many they are."""
    least = max(row[i] for i in among)
    least = least - min(0.005, least / 4)
    top = [i for i in among if row[i] > least or not row[list(among)].any()]
    if len(top) > 2:
        return f"{len(top)} of {len(among)} {kind}"
    return " and ".join("itself" if i == asking else name_of(tokens, i) for i in top)


def written(weight: Tensor) -> float:
    """Return a weight, or what is read of one that would be written as 0.00."""
    return max(float(weight), 0.01) if weight < 0.005 else float(weight)


def numbers_of(*texts: str) -> list[float]:
    return [number for number, _ in numbers_in(texts)]


@remember
def of_layer(sentence: str) -> tuple[list[str], Tensor]:
    """Return tokens, and the weights of all heads, by torch's own module."""
    tokens, torchs = LAYER().tokens(sentence), LAYER().attention.to_torch().eval()
    x = LAYER().embed(tokens)
    return tokens, torchs(x, x, x, average_attn_weights=False)[1][0].detach().double()


def real_heads(explorer: Explorer) -> Truth:
    tokens, weights = of_layer(explorer.sentence)
    place, head = asked(explorer, tokens), explorer.head
    row, name = weights[head, place], name_of(tokens, place)
    most = most_of(tokens, row, place, range(len(tokens)), "tokens")
    lines, marked = ex.real_heads.code(explorer.sentence, len(tokens)), written(row[0] + row[-1])
    code = {"lines": lines, "head": head, "place": place, "token": ""}
    return Truth(
        {"tokens": tokens, "weights": weights},
        [head, *numbers_of(name, most), row.max(), marked, 1 / len(tokens)],
        {"maps.maps": weights, "row.weights": row, "row.names": tokens},
        {"row.title": [head, *numbers_of(name)]},
        said=[f"{name} attends most to {most} ("],
        code=explorer.data["words"]["code"].format(**code),
        given={"load_layer": LAYER},
        made={"last": row} if (head + place) % 6 == 0 else {},  # to compute the weights takes long
    )


@remember
def encoder() -> PretrainedEncoder:
    """Return the model in double precision, so that no percent is rounded otherwise."""
    found = load_encoder()
    for part in (found.positions, found.types, found.norm, found.layers):
        part.double()
    return found


READ = remember(lambda sentence: encoder().read(sentence))


@remember
def labelled(word: str) -> dict[str, str]:
    """Return sentences that a word may be compared with, and their meanings."""
    rows = rows_of("bank_means.csv" if word == "bank" else "two_meanings.csv")
    rows = [one for one in rows if one.get("word", "bank") == word and one.get("part") != "aside"]
    return {one["sentence"]: one["meaning"] for one in rows}


@remember
def vectors(word: str) -> Tensor:
    return vectors_of(encoder(), word, list(labelled(word)))


@remember
def leans_of(word: str, sentence: str) -> Tensor:
    """Return how much nearer a word lies to its first meaning, without the sentence itself."""
    if not labelled(word):
        return torch.full((7,), torch.nan)
    others = torch.tensor([one != sentence for one in labelled(word)])
    meanings = list(labelled(word).values())
    is_first = torch.tensor([one == meanings[0] for one in meanings])
    own = vectors_of(encoder(), word, [sentence])[0]
    return lean(own, vectors(word)[others], is_first[others])


def layers(explorer: Explorer) -> Truth:
    tokens, _, weights = READ(explorer.sentence)
    layer, head, place = explorer.layer, explorer.head, asked(explorer, tokens)
    maps = weights[max(layer - 1, 0), :, place]
    exact = maps.mean(dim=0) if head == "mean" else maps[head]
    row, name, told = (100 * exact).round() / 100, name_of(tokens, place), explorer.data["words"]
    leans = leans_of(tokens[place], explorer.sentence)
    stop = next(one for one in explorer.data["controls"] if one["name"] == "layer")["texts"][layer]
    meanings, here = [*dict.fromkeys(labelled(tokens[place]).values())], leans[layer].item()
    most = most_of(tokens, row, place, range(1, len(row) - 1), "words")
    numbers = [*[layer - 1] * (layer > 0), *numbers_of(name), here] if meanings else []
    if layer:
        numbers += [*numbers_of(most), written(row[1:-1].max()), *[head] * (head != "mean")]
        numbers.append(written(row[0] + row[-1]))
    near = [meanings[here < 0]] if meanings and round(abs(here), 3) >= 0.005 else []
    line = told["rows"]["first" if not layer else "mean" if head == "mean" else "head"]
    line = line.format(place=place, below=layer - 1, head=head, asking="")
    shown = exact * (layer > 0)
    return Truth(
        {"tokens": tokens, "weights": shown, "meanings": meanings, "leans": leans},
        numbers,
        {"row.weights": shown, "row.names": tokens, "curve.values.0": leans},
        said=[f"nearer to {one}" for one in near]
        + [f"most to {most} ("] * (layer > 0)
        + [f"After layer {stop}"] * bool(meanings and layer),
        code=told["code"].format(lines=ex.layers.code(explorer.sentence, len(tokens)), row=line),
        given={"load_encoder": lambda: SimpleNamespace(read=READ)},
        made={"last": exact} if layer else {},
    )


# --- who asks -------------------------------------------------------------------------------------


@remember
def first_layer() -> torch.nn.MultiheadAttention:
    return encoder().layers[0].attention.to_torch().eval()


@remember
def won_by(word: str, i: int) -> Tensor:
    """Return whether a word in the place of "bank" gives the water word more, in each head: (12,).

    Each sentence is read anew with the word in it, by torch's own module in double precision.
    """
    row = [one for one in rows_of("bank_two_kinds.csv") if one["kind"] == "mixed"][i]
    tokens = [word if one == "bank" else one for one in encoder().tokens(row["sentence"])]
    x = encoder().embed(tokens)
    weights = first_layer()(x, x, x, average_attn_weights=False)[1][0, :, tokens.index(word)]
    water, money = (weights[:, tokens.index(row[kind])] for kind in ("water", "money"))
    assert ((water / money).log().abs() > 1e-6).all()
    return water > money


@remember
def stored_gap(head: int) -> float:
    """Return how many more river than money sentences 5,000 words win, from the stored bits."""
    stored = load_tensors("who_asks.safetensors")["wins"][:5000, head].numpy()
    bits = torch.tensor(np.unpackbits(stored, axis=-1)).double()  # (5000, 32)
    return (bits[:, :16].sum(dim=-1) - bits[:, 16:].sum(dim=-1)).mean().item()


@remember
def counted(word: str) -> Tensor:
    """Return all wins of a word: (12, 32)."""
    return torch.stack([won_by(word, i) for i in range(32)], dim=1)


def who_asks(explorer: Explorer) -> Truth:
    rows = [one for one in rows_of("bank_two_kinds.csv") if one["kind"] == "mixed"]
    wins, row = counted(explorer.word)[explorer.head], rows[explorer.sentence]
    is_river = torch.tensor([one["meaning"] == "river" for one in rows])
    river, money = wins[is_river].sum(), wins[~is_river].sum()
    groups = [
        sum(counted(one)[explorer.head].sum().item() for one in words.split()) / 12
        for words in (WATER_WORDS, MONEY_WORDS)
    ]
    part = (river + money - groups[1]) / (groups[0] - groups[1])
    third = ("money", "between", "water")[min(2, max(0, int(3 * part)))]
    side = third if groups[0] - groups[1] > 9.6 else ""
    gap = stored_gap(explorer.head)
    told = explorer.data["words"]
    known = told["sides"][side].split(", ")[1] if side else told["apart"]
    differ = " more in" if gap >= 0.05 else " fewer in" if gap <= -0.05 else "as many in"
    return Truth(
        {"wins": wins, "river": river.item(), "money": money.item(), "side": side},
        [explorer.head, river, 16, money, 16, 5000, *[abs(gap)] * (abs(gap) >= 0.05)]
        + [river + money, 32] * bool(side),
        said=[f"“{explorer.word}”", known, differ],
        code=told["code"].format(word=explorer.word, head=explorer.head, **row),
        given={"load_layer": LAYER},
        made={"last": wins[explorer.sentence]} if explorer.head % 4 == 0 else {},
    )
