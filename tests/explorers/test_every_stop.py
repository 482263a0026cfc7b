"""Every explorer at every stop, or at telling ones: its result, its panels, its words, its code.

Words are compared with what they were; ``pytest --snapshot-update`` keeps new ones.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from attnlab import explorers as ex
from attnlab.explorers import Explorer
from attnlab.explorers.frame.panels import Curves
from attnlab.explorers.layers import CHOICES as READ_BY_LAYERS
from attnlab.explorers.real_heads import CHOICES as READ_BY_HEADS
from tests.explorers import oracles_computed as computed
from tests.explorers import oracles_framed as framed
from tests.explorers.common import KINDS, Truth, assert_reads, assert_same, at, numbers_in
from tests.explorers.words import Text, at_state, forms_of, introduction

OWN = "the bat sat on the river bank with a nervous seal"  # typed, and no choice

ORACLES = {**vars(framed), **vars(computed)}  # by the names of modules
STOPS = {  # of what takes more values than a slider has, and of what has too many
    ex.LayersExplorer: {
        "sentence": [*(sentence for sentence, _ in [*READ_BY_LAYERS.values()][::2]), OWN],
        "word": (1, 6, 7, 23),
        "layer": (0, 1, 4, 6),
        "head": ("mean", 7),
    },
    ex.MaskExplorer: {"toggled": [(), ((1, 3), (2, 4), (5, 5))]},
    ex.RealHeadsExplorer: {
        "sentence": [*(sentence for sentence, _ in READ_BY_HEADS.values()), OWN],
        "word": (1, 4, 5, 23),
    },
    ex.RotaryExplorer: {"query": (0, 5, 23, 24), "key": (0, 2, 24)},
    ex.SoftLookupExplorer: {
        "query": [(0.866, 0.5), (-0.7071, 0.7071), (0, 0), (-1, -1), (0, -1.5), (-0.1, 1.1)]
    },
    ex.WhoAsksExplorer: {
        "word": ("bank", "river", "money", "chair", "lagoon", "penguin"),  # the last is not stored
        "sentence": (0, 15, 16, 31),
    },
}


def stops(kind: type[Explorer]) -> Iterator[Explorer]:
    """Take the explorer through its states."""
    values = {**kind.frame_values(), **STOPS.get(kind, {})}
    values = {name: one for name, one in values.items() if name not in ("ask", "large")}
    for state in itertools.product(*values.values()):
        yield at(kind, **dict(zip(values, state, strict=True)))


def seen(explorer: Explorer) -> dict[str, object]:
    """Return the frame that the browser puts together, or the one of the still picture."""
    data = explorer.data
    if "frames" not in data:
        return explorer.frame_now()
    place = 0
    for name, values in data["frame_values"].items():
        place = place * len(values) + values.index(getattr(explorer, name))
    row = data["frames"][place]
    return {part: data["pool"][i] for part, i in zip(data["parts"], row, strict=True)}


def part_of(frame: object, path: str) -> object:
    for name in path.split("."):
        frame = frame[int(name) if isinstance(frame, list | tuple | str) else name]
    return frame


def assert_true(explorer: Explorer, truth: Truth) -> None:
    """Fail unless an explorer gives, shows, says and writes what is true."""
    where, said, result = repr(explorer), explorer.say(), explorer.result
    frame = seen(explorer) if truth.frame or truth.reads else {}
    for name, wanted in truth.result.items():
        assert_same(getattr(result, name), wanted, f"{where}.result.{name}")
    for path, wanted in truth.frame.items():
        assert_same(part_of(frame, path), wanted, f"{where}: {path}")
    for path, wanted in truth.reads.items():
        assert_reads(part_of(frame, path), wanted, f"{where}: {path}")
    if truth.numbers is not None:
        assert_reads(said, truth.numbers, where)
    assert [words for words in truth.said if words not in said] == [], f"{where}: {said}"
    assert said.endswith(".")
    assert "*" not in said
    curves = {panel.key: panel for panel in explorer.panels if isinstance(panel, Curves)}
    for key, wanted in truth.curves.items():
        panel = curves[key].at(frame.get(key, {}))
        lines = frame.get(key, {}).get("values") or [line.values for line in panel.lines]
        stop = panel.stops.index(getattr(explorer, panel.over))
        found = torch.tensor([line[stop] for line in lines]).double()
        assert_same(found, torch.tensor([*wanted]).double(), f"{where}: curves of {key}")
        assert ((panel.y.low < found) & (found < panel.y.high)).all()
    if truth.made:
        run(truth, truth.code or frame["code"], where)


def run(truth: Truth, code: str, where: str) -> None:
    """Fail unless lines of PyTorch compute what is true."""
    if "last" in truth.made:  # the value of the last line
        lines, _, last = code.rpartition("\n")
        code = f"{lines}\nlast = {last}"
    names = {"torch": torch, **truth.given}
    exec(code, names)
    for name, wanted in truth.made.items():
        assert_same(names[name], wanted, f"{where}:\n{code}\n{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_stop_is_what_torch_gives(kind, snapshot):
    oracle, told, forms = ORACLES[kind.__module__.rpartition(".")[2]], introduction(at(kind)), set()
    for explorer in stops(kind):
        assert_true(explorer, oracle(explorer))
        if not forms_of(explorer.say()) <= forms:  # something that has not been said yet
            forms |= forms_of(explorer.say())
            told += at_state(explorer, seen(explorer) if "frames" in explorer.data else {})
    assert "\n".join(told) == snapshot(extension_class=Text)


def test_the_answers_to_questions_are_what_torch_computes():
    row, asked = at(ex.RowExplorer).result, ex.RowExplorer.prediction
    scores, share = row.scores, row.scores[2] / row.scores.sum()
    assert_reads(asked.ask, scores, "ask")
    assert_reads(asked.options, [share, row.weights[2], 1], "options")
    told = [row.positive[2], row.total, row.weights[2], share, scores[2], scores.sum()]
    assert_reads(asked.why, told, "why")
    tokens, weights = at(ex.RealHeadsExplorer).result
    most = [tokens[i] for i in weights[:, tokens.index("bank")].argmax(-1)]
    heads = [head for head, token in enumerate(most) if token == "river"]
    marked = most.count("[CLS]") + most.count("[SEP]")
    assert_reads(ex.RealHeadsExplorer.prediction.why, [len(heads), *heads, marked], "why")


def test_no_words_are_kept_of_an_explorer_that_has_gone():
    folder = Path(__file__).with_name("__snapshots__") / Path(__file__).stem
    assert len([*folder.iterdir()]) == len(KINDS)


@pytest.mark.parametrize("d_model", [256, 4096])
def test_costs_of_another_width_are_other_ones(d_model):
    for n in (64, 2 * d_model, 65536):
        explorer = ex.CostExplorer(d_model, n=n, heads=32)
        assert_true(explorer, framed.cost(explorer))
        assert explorer.panels[2].under.endswith(f"at n = 2 d_model = {2 * d_model}")


def test_the_written_weights_of_a_look_up_add_up_to_its_output():
    for explorer in stops(ex.SoftLookupExplorer):
        *terms, output = [number for number, _ in numbers_in(explorer.say())][:7]
        written = sum(weight * legs for weight, legs in zip(terms[::2], terms[1::2], strict=True))
        assert f"{written:.2f}" == f"{output:.2f}"
