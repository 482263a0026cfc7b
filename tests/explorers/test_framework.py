"""What all explorers share: state, declarations, frames, words, pictures, bundles, scripts."""

import base64
import html
import io
import itertools
import json
import re
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from attnlab import explorers, palette
from attnlab.explorers import Explorer, MaskExplorer, ScalingExplorer, YourAttentionExplorer, _page
from attnlab.explorers._controls import (
    Control,
    Question,
    Slider,
    State,
    controls_of,
    flag,
    near_one_of,
    one_of,
)
from attnlab.explorers._panels import Axis, Bars, Column, Curves, Heatmap, Line
from attnlab.live import STYLE_FILE
from tests.explorers.common import at
from tools.compare_outputs import JSON_BLOCK, compare_outputs

KINDS = [getattr(explorers, name) for name in explorers.__all__ if name != "Explorer"]
DECLARED = [kind for kind in KINDS if kind.module == "declared"]
VIEW = "application/vnd.jupyter.widget-view+json"
NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch, request):
    """No output of this kernel has stored a script yet; drawing, which is slow, is left out."""
    monkeypatch.setattr(_page, "_stored", set())
    if "picture" not in request.node.name:
        monkeypatch.setattr(Explorer, "_picture", lambda self: b"no picture")


# --- state ----------------------------------------------------------------------------------------

HOSTILE = [True, 0, -1, 3, 10**400, 2.5, 0.7, NAN, INF, None, "", "1", "x" * 9999, [1] * 9999]
HOSTILE += [torch.ones(2)]


@pytest.mark.parametrize(
    "check",
    [one_of(1, 2), one_of("a", "b"), near_one_of(0.1, 1.0), flag],
    ids=["one_of numbers", "one_of words", "near_one_of", "flag"],
)
def test_a_hostile_value_is_refused_with_one_sentence(check):
    for value in HOSTILE[check is flag :]:  # True is a flag
        with pytest.raises((TypeError, ValueError), match=r"^x must be (.*, got |True)") as found:
            check("x", value, None)
        assert len(str(found.value)) < 200
        assert "\n" not in str(found.value)


def test_checks_return_the_value_as_it_is_kept():
    assert one_of(1, 2)("x", 2, None) == 2
    assert flag("x", False, None) is False
    kept = near_one_of(0.2, 1.0)("x", torch.tensor(0.2).item(), None)  # of 32 bits
    assert kept == 0.2
    assert isinstance(near_one_of(0.2, 1.0)("x", 1, None), float)  # the browser sends 1 for 1.0
    with pytest.raises(ValueError, match=r"x must be one of 1, 2, got 1\.0"):
        one_of(1, 2)("x", 1.0, None)


def test_a_control_takes_the_check_of_its_values():
    class Probe(ScalingExplorer):
        many = Slider(0.5, (0.5, 2.0), label="many", presets={2.0: "two"})
        named = Slider(1, {1: "one", 2: "two"}, label="named", presets=(2,))
        either = Control(False, {False: "off", True: "on"})

        def frame(self, **values):
            return {"say": "", "code": "", "bad": values["either"]}

    with pytest.raises(TypeError, match="many must be a number, got '2'"):
        Probe(many="2")
    with pytest.raises(TypeError, match="either must be True or False"):
        Probe(either=1)
    told = {one.get("name"): one for one in (c.describe() for c in controls_of(Probe).values())}
    assert list(told) == ["d_k", "seed", "many", "named", "either"]
    assert told["many"]["texts"] == ["0.5", "2"]
    assert told["many"]["presets"] == [(2.0, "two")]
    assert told["named"]["presets"] == [(2, "two")]
    assert told["either"]["texts"] == ["off", "on"]
    assert Probe.frame_values()["many"] == (0.5, 2.0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_of_every_explorer_refuses_nonsense(kind):
    explorer = kind()
    before = explorer.state()
    for name, value in itertools.product(explorer.state(), ("", object(), [[None]])):
        with pytest.raises((TypeError, ValueError), match="must") as found:
            setattr(explorer, name, value)
        assert len(str(found.value)) < 250
        assert "\n" not in str(found.value)
    assert explorer.state() == before


# --- declarations and frames ----------------------------------------------------------------------


def sent_frame(explorer, **state):
    """Return a frame as the browser puts it together."""
    data = explorer.data
    place = 0
    for name, values in data["frame_values"].items():
        place = place * len(values) + list(values).index(state[name])
    return {
        part: data["pool"][i] for part, i in zip(data["parts"], data["frames"][place], strict=True)
    }


@pytest.mark.parametrize("kind", DECLARED)
def test_the_browser_gets_the_frame_of_every_state(kind):
    explorer = at(kind)
    states = [*itertools.product(*kind.frame_values().values())]
    assert len(explorer.data["frames"]) == len(states)
    for values in (states[0], states[len(states) // 3], states[-2]):
        state = dict(zip(kind.frame_values(), values, strict=True))
        assert sent_frame(explorer, **state) == _page.sendable(explorer.frame(**state))


@pytest.mark.parametrize("kind", DECLARED)
def test_every_frame_has_words_code_and_the_values_of_its_panels(kind):
    data = at(kind).data
    columns = [panel.get("panels", [panel]) for panel in data["panels"]]
    panels = {panel["key"]: panel for panel in itertools.chain(*columns)}
    assert set(data["parts"]) - {"say", "bad", "code"} <= set(panels)
    for row in data["frames"]:
        frame = {part: data["pool"][i] for part, i in zip(data["parts"], row, strict=True)}
        assert frame["say"].count("**") % 2 == 0
        assert frame["say"].endswith((".", ".**"))
        assert isinstance(frame["bad"], bool)
        compile(frame["code"], "code", "exec")


ANSWERS = {
    "ScalingExplorer": "sharper",
    "MaskExplorer": "“The” (row 0)",
    "AfterSoftmaxExplorer": "0 before",
    "TemperatureExplorer": "never",
    "BankExplorer": "only attention",
    "RowExplorer": "0.380",
    "HeadsExplorer": "no, and no error",
    "SoftLookupExplorer": "less than 5",
    "CostExplorer": "4 times",
    "OrderExplorer": "for none",
    "DivisorsExplorer": "all keys alike",
    "PeekExplorer": "far above it",
    "ManyHeadsExplorer": "stays the same",
    "CrossExplorer": "(3, 6), each row",
    "RealHeadsExplorer": "at most 2",
    "RotaryExplorer": "all but pair 0",
    "CacheExplorer": "84",
    "LayersExplorer": "layer 1",
    "LookingBackExplorer": "both at about the same time",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_is_answered_and_can_be_settled_by_the_controls(kind):
    explorer, values = at(kind), kind.frame_values()
    prediction = explorer.prediction
    assert (prediction is None) == (kind is YourAttentionExplorer)  # all others ask first
    if prediction is not None:
        assert isinstance(prediction, Question)
        assert prediction.options[prediction.right] == ANSWERS[kind.__name__]
        assert explorer.data["question"] == _page.sendable(prediction.describe())
        for condition in prediction.settled:
            assert all(set(wanted) <= set(values[name]) for name, wanted in condition.items())
            assert any(explorer.state()[name] not in wanted for name, wanted in condition.items())
    assert explorer.data["state"] == sorted(explorer.state())
    assert set(kind.state_names()) >= {"ask", "large"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_control_has_a_label_in_the_browser(kind):
    controls = at(kind)._describe()["controls"]
    assert [
        one for one in controls if one["kind"] and not (one.get("label") or one.get("text"))
    ] == []


def test_parts_that_frames_share_are_sent_once():
    frames = [{"a": 1.0, "b": torch.ones(2)}, {"a": 2.0, "b": torch.ones(2)}]
    assert _page.encode_frames(frames) == {
        "parts": ["a", "b"],
        "pool": [1.0, [1.0, 1.0], 2.0],
        "frames": [[0, 1], [2, 1]],
    }


def test_numbers_are_sent_with_six_digits_and_what_is_not_finite_as_a_word():
    values = {"x": (0.12345678, NAN), 3: torch.tensor([INF, -INF, 0.25e-7]), "whole": 65536}
    assert _page.sendable(values) == {
        "x": [0.123457, "NaN"],
        "3": ["Infinity", "-Infinity", 2.5e-8],
        "whole": 65536,
    }


# --- panels, drawn by matplotlib ------------------------------------------------------------------


def drawn(panel, values, **state):
    ax = Figure().subplots()
    panel.at(values).draw(ax, values, state)
    return ax


def test_a_heatmap_draws_its_cells_on_the_stated_scale():
    panel = Heatmap(key="w", title="t", rows=("a", "b"), columns=("c", "d"), scale=(0, 2))
    cells = torch.tensor([[0.0, 1.0], [2.0, 0.5]])
    with mpl.rc_context(fname=STYLE_FILE):
        looks = [["blocked", ""], ["", ""]]
        ax = drawn(panel, {"cells": cells, "looks": looks, "title": "other"})
    mesh = ax.collections[0]
    assert mesh.get_clim() == (0, 2)
    assert ax.get_title(loc="left") == "other"
    assert mesh.get_array().tolist() == [[0, 1], [2, 0.5]]
    (hatched,) = [one for one in ax.collections if one.get_label() == "blocked"]
    assert [path.get_extents().bounds for path in hatched.get_paths()] == [(0, 0, 1, 1)]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]


def test_curves_draw_their_values_in_their_colours_and_mark_the_stop():
    lines = [
        Line("up", [1, 2, 3], "raw", "dashed", "square"),
        Line("down", [3, 2, 1], "good", "solid", "circle"),
    ]
    panel = Curves(key="c", over="x", stops=(1, 2, 4), lines=lines, y=Axis(0, 4, (0, 2, 4)))
    ax = drawn(panel, {}, x=2)
    assert [list(line.get_ydata()) for line in ax.lines[:2]] == [[1, 2, 3], [3, 2, 1]]
    assert [line.get_color() for line in ax.lines[:2]] == [palette.ORANGE, palette.GREEN]
    assert [line.get_linestyle() for line in ax.lines[:2]] == ["--", "-"]
    assert [line.get_marker() for line in ax.lines[:2]] == ["s", "o"]
    powers = drawn(replace(panel, y=Axis(1, 100, (1, 10), log=True)), {}, x=2)
    assert [one.get_yscale() for one in (ax, powers)] == ["linear", "log"]
    assert ax.lines[2].get_xdata()[0] == 2
    other = drawn(panel, {"values": [[0, 0, 0], [4, 4, 4]]}, x=1)
    assert list(other.lines[1].get_ydata()) == [4, 4, 4]
    assert panel.describe()["labels"] == ["1", "", "4"]
    assert panel.describe()["y"]["ticks"] == [(0, "0"), (2, "2"), (4, "4")]


def test_bars_are_as_long_as_the_weights_and_outlines_as_what_they_are_compared_with():
    panel = Bars(key="b", names=("p", "q"), columns={"score": ["1", "2"]}, digits=3)
    ax = drawn(panel, {"weights": torch.tensor([0.25, 0.75]), "outline": torch.tensor([0.5, 0.5])})
    assert [bar.get_width() for bar in ax.patches] == [0.25, 0.75, 0.5, 0.5]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["p   1", "q   2"]
    assert [text.get_text() for text in ax.texts] == ["0.250", "0.750"]
    assert ax.yaxis_inverted()  # the first one is on top
    rest = {"weights": torch.tensor([0.25, 0.75]), "rest": torch.tensor([0.5, 0.25])}
    placed = [(bar.get_x(), bar.get_width()) for bar in drawn(panel, rest).patches]
    assert placed == [(0, 0.25), (0, 0.75), (0.25, 0.5), (0.75, 0.25)]


def test_panels_of_a_column_are_drawn_below_each_other():
    class Probe(Explorer):
        panels = (
            Column(panels=(Bars(key="top", names=("p",)), Bars(key="low", names=("p",)))),
            Heatmap(key="w", rows=("a",), columns=("b",), grow=2),
        )

        def frame(self):
            bars = {"weights": torch.ones(1)}
            cells = {"cells": torch.ones(1, 1)}
            return {"say": "x.", "bad": False, "code": "", "top": bars, "low": bars, "w": cells}

    figure = Probe().figure()
    figure.draw_without_rendering()
    top, low, wide = (ax.get_position() for ax in figure.axes)
    assert top.y0 > low.y1
    assert wide.x0 > top.x1
    assert wide.width > 1.5 * top.width


# --- pictures and pages ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_equal_explorers_have_equal_pages_which_ask_for_nothing_from_elsewhere(kind):
    one, other = kind(), kind()
    assert repr(one) == repr(other) == f"{kind.__name__}()"
    page = one.to_html()
    assert page == other.to_html()
    own = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//cdn|@import|url\(", own)


def test_repr_names_what_is_changed_and_makes_the_same_again():
    explorer = MaskExplorer(ask=False, padding=[2, 0], toggled=[[1, 3]])
    assert repr(explorer) == "MaskExplorer(ask=False, padding=(0, 2), toggled=((1, 3),))"
    assert eval(repr(explorer)).to_html() == explorer.to_html()


@pytest.mark.parametrize("kind", KINDS)
def test_the_picture_is_small_as_large_as_stated_and_not_held_by_pyplot(kind):
    explorer, before = kind(ask=False), plt.get_fignums()
    (picture,) = re.findall(r"base64,([^\"]+)", explorer.to_html(library=False))
    assert len(picture) < 100_000
    assert plt.get_fignums() == before
    png = base64.b64decode(picture)
    assert b"Software" not in png  # another version of matplotlib draws the same
    across, down = (side / inches for side, inches in zip(size_of(png), kind.figsize, strict=True))
    assert across == pytest.approx(down, rel=0.01)
    assert across > 80  # dots per inch: it can be read


def size_of(png):
    return Image.open(io.BytesIO(png)).size


def test_the_same_picture_is_drawn_again():
    assert MaskExplorer(ask=False)._picture() == MaskExplorer(ask=False)._picture()


def test_a_page_shows_the_sentence_before_anything_moves():
    explorer = MaskExplorer(["<b>x</b>", "cat"], padding=[0])
    said, page = html.escape(explorer.say()), explorer.to_html(library=False)
    assert f'alt="{said}"' in page
    assert f">{said}</p>" in page
    assert "attnlabParts" not in page  # the first explorer of a notebook has the scripts


def test_a_still_picture_of_several_curves_has_a_legend():
    (legend,) = at(ScalingExplorer).figure().legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [line.name for line in at(ScalingExplorer).panels[2].lines]


@pytest.mark.parametrize("kind", [MaskExplorer, ScalingExplorer])
def test_the_bundle_is_live_in_jupyter_and_static_when_it_is_stored(kind, monkeypatch):
    monkeypatch.delenv("ATTNLAB_STATIC", raising=False)
    live = kind()._repr_mimebundle_()
    assert set(live) == {VIEW, "text/html", "text/plain"}
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    stored = kind()._repr_mimebundle_()
    assert set(stored) == {"text/html", "text/plain"}


def test_stored_outputs_hold_every_script_once(monkeypatch):
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    made = [ScalingExplorer(), MaskExplorer(), MaskExplorer(padding=[1]), ScalingExplorer(d_k=8)]
    pages = [explorer._repr_mimebundle_()["text/html"] for explorer in made]
    scripts = {name: f'"{_page.key_of(name)}"] ??=' for name in ("base", "masks", "declared")}
    found = {name: [mark in page for page in pages] for name, mark in scripts.items()}
    assert found == {
        "base": [True, False, False, False],
        "masks": [False, True, False, False],
        "declared": [True, False, False, False],
    }
    assert sum(map(len, pages)) < 250_000


def test_scripts_come_after_those_they_import():
    for kind in KINDS:
        order = _page.modules_of(kind.module)
        for place, name in enumerate(order):
            assert set(_page.imports_of(name)) <= set(order[:place])


def test_pages_have_one_json_block_that_is_compared_with_tolerance():
    page = MaskExplorer(ask=False).to_html()
    ((_, block, _),) = JSON_BLOCK.findall(page)
    assert json.loads(block)["state"]["mask"] == "causal"
    number = re.search(r"-?\d\.\d+", block).group()
    shifted = page.replace(number, number + "0001", 1)
    wrong = page.replace(number, str(float(number) + 0.01), 1)
    assert compare_outputs(*outputs(page, shifted)) is None
    assert "JSON" in compare_outputs(*outputs(page, wrong))


def outputs(*pages):
    return [[nbformat.v4.new_output("display_data", {"text/html": page})] for page in pages]


def test_the_style_has_every_role_in_both_themes_and_no_colour_of_its_own():
    light, dark, own = _page.source_of("style").split("\\n", maxsplit=2)
    for name, role in palette.ROLES.items():
        assert f"--{name}: {role.light}" in light
        assert f"--{name}: {role.dark}" in dark
    pairs = json.loads(own.partition("SHADES = ")[2].partition(";")[0])
    wanted = [palette.shade(step / 100) for step in range(101)]
    assert pairs == [[palette.to_hex(shade), palette.ink_on(shade)] for shade in wanted]
    folder = _page.FOLDER
    others = [path.read_text() for path in (*folder.glob("*.mjs"), *folder.parent.glob("*.py"))]
    texts = [own.partition("export const SHADES")[0], *others]
    assert [re.findall(r"#[0-9a-f]{3,8}\b", text) for text in texts] == [[] for _ in texts]


def test_json_can_stand_in_a_script_and_is_read_back():
    evil = {"words": ["</script>", "<!--<script>", "a&b", "\u2028"], "x": 0.25}
    text = _page.to_json(evil)
    assert "<" not in text
    assert json.loads(text) == evil


def test_a_module_is_joined_without_imports_and_exports(monkeypatch):
    sources = {
        "one": 'export const end = "</script><!--";\nexport function f() {}\n',
        "two": 'import {\n  end, f,\n} from "./one.mjs";\nexport class Two {}\n',
        "three": "export default 3;\n",
        "four": 'import * as all from "./one.mjs";\n',
    }
    monkeypatch.setattr(_page, "source_of", sources.__getitem__)
    _page.key_of.cache_clear()
    try:
        one, two = _page.joined("one"), _page.joined("two")
        assert "</script" not in one
        assert "<!--" not in one
        assert "return { end, f };" in one
        assert f'const {{ end, f, }} = attnlabModules["{_page.key_of("one")}"];' in two
        assert f'attnlabParts["{_page.key_of("two")}"] ??= [["{_page.key_of("one")}"], ' in two
        for name in ("three", "four"):
            with pytest.raises(ValueError, match=f"js/{name}.mjs must write import"):
                _page.joined(name)
    finally:
        _page.key_of.cache_clear()


def test_a_state_without_values_takes_no_part_in_frames():
    assert State(1, flag).values == ()
    assert "padding" not in MaskExplorer.frame_values()
