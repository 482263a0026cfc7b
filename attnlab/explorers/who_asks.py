"""Any word asks in the place of "bank", and prefers water words or money words."""

from __future__ import annotations

import base64
import csv
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import torch
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.checks import short
from attnlab.display.table import data_path
from attnlab.explorers.frame.base import Explorer
from attnlab.explorers.frame.controls import Picked, Slider, State
from attnlab.explorers.frame.words import texts_beside
from attnlab.models.pretrained import NUM_HEADS, PretrainedLayer, load_layer
from attnlab.models.store import load_tensors
from attnlab.palette import BLUE, INK, LINE, MUTED, ORANGE

WATER = ("ocean", "sea", "tide", "lagoon", "marsh", "reef", "shoreline", "delta", "wave", "waves")
WATER += ("surf", "pier")
MONEY = ("finance", "market", "business", "trade", "cost", "income", "budget", "currency")
MONEY += ("dollars", "economy", "cash", "purchase")
COMMON = 5000  # words whose wins are stored, beside these 24
PRESETS = ("bank", "river", "money", "chair")
APART = 0.3  # in a head, the difference of the mean shares of both groups that makes it a scale
LEVEL = 0.05  # a mean difference smaller than this is written as none

WORDS = texts_beside(__file__)["words"]


class Case(NamedTuple):
    """A sentence with a water word and a money word, one of which shows which bank is meant."""

    sentence: str
    is_river: bool
    water: str
    money: str


class WhoAsksResult(NamedTuple):
    """What happens if a word asks in one head."""

    wins: Tensor  # (32,) of bool: whether the water word gets more weight than the money word
    river: int  # how often in the 16 sentences in which a river bank is meant
    money: int  # how often in the 16 in which a money bank is meant
    side: str  # "water", "money" or "between"; "" in a head where the groups do not come apart


@cache
def cases() -> tuple[Case, ...]:
    """Return the 32 sentences, those about a river bank first."""
    with data_path("bank_two_kinds.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "mixed"]
    return tuple(
        Case(row["sentence"], row["meaning"] == "river", row["water"], row["money"]) for row in rows
    )


def wins_of(layer: PretrainedLayer, askers: Sequence[str]) -> Tensor:
    """Return where askers give the water word more than the money word: (A, 12, 32) of bool."""
    found = []
    for sentence, _, water, money in cases():
        tokens = layer.tokens(sentence)
        weights = layer.attend_as(askers, tokens, tokens.index("bank"))  # (12, A, L)
        found.append(weights[..., tokens.index(water)] > weights[..., tokens.index(money)])
    return torch.stack(found, dim=-1).transpose(0, 1)


def in_float64(layer: PretrainedLayer) -> PretrainedLayer:
    """Return the layer, changed to float64, so that nothing hangs on the processor."""
    for part in (layer.positions, layer.types, layer.norm, layer.attention):
        part.double()  # the words stay in the file
    return layer


@cache
def _layer() -> PretrainedLayer:
    return in_float64(load_layer())


@cache
def _stored() -> tuple[dict[str, int], Tensor]:
    """Return the rows of the stored words, and their wins as numbers of eight bits: (W, 12, 4)."""
    stored = load_tensors("who_asks.safetensors")
    names = stored["words"].numpy().tobytes().decode().split()
    return {name: row for row, name in enumerate(names)}, stored["wins"]


@lru_cache(maxsize=256)
def wins_for(word: str) -> Tensor:
    """Return the wins of one word, stored or computed: (12, 32) of bool."""
    rows, stored = _stored()
    return _bits(stored[rows[word]]) if word in rows else wins_of(_layer(), [word])[0]


def _bits(numbers: Tensor) -> Tensor:
    return (numbers[..., None] >> torch.arange(7, -1, -1) & 1).flatten(-2).bool()


@cache
def counts() -> tuple[Tensor, Tensor]:
    """Return two tables (12, 33): how many common words win in so many sentences, and the rulers.

    The second is (12, 24): in how many sentences each water word and each money word wins.
    """
    rows, stored = _stored()
    won = _bits(stored).sum(dim=-1)  # (W, 12)
    common = torch.stack([won[:COMMON, head].bincount(minlength=33) for head in range(NUM_HEADS)])
    return common, won[[rows[word] for word in (*WATER, *MONEY)]].T


@cache
def gaps() -> Tensor:
    """Return how many more river than money sentences the common words win on average: (12,)."""
    won = _bits(_stored()[1][:COMMON])
    is_river = torch.tensor([case.is_river for case in cases()])
    both = (won[..., is_river].sum(dim=-1) - won[..., ~is_river].sum(dim=-1)).double()
    return both.mean(dim=0)


def limits(head: int) -> tuple[float, float] | None:
    """Return up to where a count is near the money words, and from where near the water words.

    They are the thirds of the way between the means of both groups; None if these are close.
    """
    rulers = counts()[1][head].double()
    water, money = rulers[: len(WATER)].mean().item(), rulers[len(WATER) :].mean().item()
    if water - money < APART * len(cases()):
        return None
    return money + (water - money) / 3, water - (water - money) / 3


def _a_word(name: str, value: object, _explorer: WhoAsksExplorer) -> str:
    """Return a word that can ask: a single piece of the layer's vocabulary."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a word, got {short(value)}.")
    word = value.strip().lower()
    if word in _stored()[0]:
        return word
    pieces = _layer().tokens(word)[1:-1]
    if len(pieces) > 1 or pieces[0].startswith("["):
        raise ValueError(
            f"{name} must be one that the layer keeps whole, got {short(word)}, which it reads as "
            f"{short(' '.join(pieces))}."
        )
    return pieces[0]


class WhoAsksExplorer(Explorer):
    """A word asks in the place of "bank", in 32 sentences with a water word and a money word.

    In Jupyter any word can be typed that the layer keeps whole. A page without a kernel carries
    5,000 common ones.

    Parameters
    ----------
    **state
        ``word``: the word that asks. ``head``: 0 to 11. ``sentence``: the one that is shown, 0 to
        31. ``ask`` and ``large``, as in ``Explorer``.

    Attributes
    ----------
    problem : str
        Why what was typed last cannot ask; empty if it can.

    See Also
    --------
    attnlab.models.pretrained.PretrainedLayer.attend_as : lets other words ask.
    """

    module = "who_asks"
    figsize = (9.2, 4.2)
    word = State("bank", _a_word)
    head = Slider(8, range(NUM_HEADS), label="head", spoken="head", width=160)
    sentence = Picked(0, range(32))
    typed = traitlets.Unicode().tag(sync=True)  # sent by the browser, emptied when it is read
    problem = traitlets.Unicode().tag(sync=True)
    reading = traitlets.Dict().tag(sync=True)  # of a word that is not stored

    @property
    def result(self) -> WhoAsksResult:
        """Wins, counts and side, from weights of torch in double precision."""
        wins = wins_for(self.word)[self.head].clone()
        is_river = torch.tensor([case.is_river for case in cases()])
        river, money = int(wins[is_river].sum()), int(wins[~is_river].sum())
        ends = limits(self.head)
        side = ends and ("money", "between", "water")[sum(river + money > end for end in ends)]
        return WhoAsksResult(wins, river, money, side or "")

    def make_data(self) -> dict[str, object]:
        """Return the stored words with their wins, the sentences, the scales and all words."""
        rows, stored = _stored()
        common, rulers = counts()
        return {
            "cases": [case._asdict() for case in cases()],
            "names": " ".join(rows),
            "wins": base64.b64encode(stored.numpy().tobytes()).decode(),
            "common": common.tolist(),
            "rulers": rulers.tolist(),
            "limits": [limits(head) for head in range(NUM_HEADS)],
            "alls": [said_of_all(head) for head in range(NUM_HEADS)],
            "presets": PRESETS,
            "words": WORDS,
        }

    def data_to_store(self) -> dict[str, object]:
        """Return the data, and the word in force if it is not stored."""
        return {**self.data, "own": self.reading if self.word not in _stored()[0] else {}}

    @traitlets.observe("word")
    def _on_word(self, _change: object) -> None:
        if self.word not in _stored()[0]:
            wins = wins_for(self.word).int().tolist()
            self.reading = {"word": self.word, "wins": wins}
        self.problem = ""

    @traitlets.observe("typed")
    def _on_typed(self, _change: object) -> None:
        if not self.typed:
            return
        with self.hold_sync():  # one message: the browser draws once
            try:
                self.word = self.typed
                self.problem = ""
            except Exception as error:  # shown inside the explorer
                self.problem = str(error)
            self.typed = ""

    # --- words and picture ------------------------------------------------------------------------

    def say_rich(self) -> str:
        """Return how often the water word wins, and which group the word that asks is like."""
        _, river, money, side = self.result
        told = WORDS["sides"][side].format(total=river + money) if side else WORDS["apart"]
        facts = {"head": self.head, "word": self.word, "river": river, "money": money}
        return WORDS["say"].format(**facts, side=told, all=said_of_all(self.head))

    def draw(self, fig: Figure) -> None:
        """Draw the scale of the head, and beside it all pairs of words."""
        scale, pairs = fig.subplots(1, 2, width_ratios=[1.25, 1])
        wins, river, money, _ = self.result
        _draw_scale(scale, self.head, self.word, river + money)
        _draw_pairs(pairs, wins.tolist())
        fig.legend(*scale.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def said_of_all(head: int) -> str:
    """Return what holds for all common words in a head."""
    gap = gaps()[head].item()
    kind = "equal" if abs(gap) < LEVEL else "larger" if gap > 0 else "smaller"
    return WORDS["alls"][kind].format(gap=f"{abs(gap):.1f}")


def _draw_scale(ax: Axes, head: int, word: str, total: int) -> None:
    """Draw common words as a histogram, both groups as dots, and the word that asks as a mark."""
    common, rulers = (table[head] for table in counts())
    heights = (12 * common / common.max()).tolist()
    ax.bar(range(33), heights, width=1, color=LINE, label=WORDS["key"]["common"])
    seen: Counter[int] = Counter()
    dots = []
    for count in rulers.tolist():
        dots.append(0.7 + 1.3 * seen[count])
        seen[count] += 1
    groups = zip((BLUE, ORANGE), ("water", "money"), (slice(0, 12), slice(12, 24)), strict=True)
    for colour, name, part in groups:
        look = {"color": colour, "edgecolor": "white", "zorder": 3, "label": WORDS["key"][name]}
        ax.scatter(rulers[part].tolist(), dots[part], s=46, **look)
    ax.scatter(total, -1.4, s=130, marker="D", color=INK, clip_on=False)
    ax.text(total, -3.4, f"“{word}”", ha="center", weight="bold", parse_math=False)
    ax.set(xlim=(-1, 33), ylim=(-4, 13), yticks=[], title=f"head {head}")
    ax.set_xticks([0, 8, 16, 24, 32])
    ax.set_xlabel("sentences in which the water word wins")
    ax.spines["left"].set_visible(False)


def _draw_pairs(ax: Axes, wins: Sequence[bool]) -> None:
    """Write the two words of each sentence, the one with more weight on its colour."""
    for row, (case, won) in enumerate(zip(cases(), wins, strict=True)):
        x, y = (0.24, 0.76)[row // 16], -(row % 16)
        for word, shown, colour, align in (
            (case.water, won, BLUE, "right"),
            (case.money, not won, ORANGE, "left"),
        ):
            box = {"facecolor": colour if shown else "none", "edgecolor": "none", "pad": 1.5}
            ink = {"color": "white" if shown else MUTED, "fontsize": 7.5, "bbox": box}
            ax.text(x + (0.01 if align == "left" else -0.01), y, word, ha=align, va="center", **ink)
    for x, meant in zip((0.24, 0.76), WORDS["meant"], strict=True):
        ax.text(x, 1.4, meant, ha="center", va="center", fontsize=9, weight="bold")
    ax.set(xlim=(0, 1), ylim=(-15.7, 2))
    ax.axis("off")
