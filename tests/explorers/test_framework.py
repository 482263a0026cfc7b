"""What all explorers promise: of state, controls and pages, and one sentence for what is wrong."""

import base64
import html
import io
import itertools
import json
import re
from contextlib import contextmanager

import matplotlib.pyplot as plt
import pytest
import torch
from PIL import Image

from attnlab import explorers as ex
from attnlab import palette
from attnlab.display.stored import BUNDLE
from attnlab.explorers.frame import bundle
from attnlab.explorers.frame.controls import Slider, flag, near_one_of, one_of
from tests.explorers.common import KINDS, at

VIEW = "application/vnd.jupyter.widget-view+json"
NAN, INF = float("nan"), float("inf")
HOSTILE = [True, 0, -1, 3, 10**400, 2.5, 0.7, NAN, INF, None, "", "1", "x" * 9999, [1] * 9999]


@contextmanager
def refused(words, most=200):
    """Expect one short sentence with these words."""
    with pytest.raises((TypeError, ValueError), match=words) as found:
        yield
    assert len(str(found.value)) < most
    assert "\n" not in str(found.value)


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch):
    """No output of this kernel has stored a script yet."""
    monkeypatch.setattr(bundle, "_stored", set())


@pytest.mark.parametrize("kind", KINDS)
def test_every_explorer_keeps_what_all_promise(kind, monkeypatch):
    explorer, figures = at(kind), plt.get_fignums()
    described = explorer._describe()
    assert {"ask", "large"} <= set(explorer.data["state"]) == set(explorer.state())
    assert all(one.get("label") or one.get("text") for one in described["controls"] if one["kind"])
    question, values = explorer.prediction, kind.frame_values()
    assert explorer.data["question"] == bundle.sendable(question and question.describe())
    for met in question.settled if question else ():  # by the controls, and not yet
        assert all(set(wanted) <= set(values[name]) for name, wanted in met.items())
        assert any(explorer.state()[name] not in wanted for name, wanted in met.items())
    page = explorer.to_html(library=False)
    said = html.escape(explorer.say())
    assert f'alt="{said}"' in page
    assert f">{said}</p>" in page
    assert "attnlabParts" not in page  # the first explorer of a notebook has the scripts
    png = base64.b64decode(re.search(r"base64,([^\"]+)", page).group(1))
    (wide, high), (inches, _) = Image.open(io.BytesIO(png)).size, kind.figsize
    assert wide / high == pytest.approx(inches / kind.figsize[1], rel=0.01)
    assert wide / inches > 80  # it can be read
    assert len(png) < 40_000
    assert b"Software" not in png  # another version of matplotlib draws the same
    assert plt.get_fignums() == figures
    monkeypatch.setattr(kind, "_picture", lambda self: b"no picture")  # to draw it takes long
    one, other = kind(), kind()
    assert repr(one) == f"{kind.__name__}()"
    assert one.to_html() == other.to_html()
    own = one.to_html().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//cdn|@import|url\(", own)


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_refuses_nonsense(kind):
    explorer = at(kind)
    before = explorer.state()
    for name, value in itertools.product(before, ("", object(), [[None]])):
        with refused("must", most=250):
            setattr(explorer, name, value)
    assert explorer.state() == before


def test_repr_names_what_is_changed_and_makes_the_same_again():
    explorer = ex.MaskExplorer(ask=False, padding=2, toggled=[[1, 3]])
    assert repr(explorer) == "MaskExplorer(ask=False, padding=2, toggled=((1, 3),))"
    assert eval(repr(explorer), vars(ex)).to_html() == explorer.to_html()


# --- what is refused ------------------------------------------------------------------------------

REFUSED = [  # an explorer, what it is given, and words of its sentence
    (ex.CostExplorer, {"d_model": 0}, "must be one of 256, 512, 1024, 4096, got 0"),
    (ex.MaskExplorer, {"padding": 6}, "padding must be one of 0, 1, 2, 3, 4, 5, got 6"),
    (ex.MaskExplorer, {"padding": [1]}, r"padding must be one of .*, got \[1\]"),
    (ex.MaskExplorer, {"toggled": [(0, 6)]}, "toggled must hold positions 0 to 5, got 6"),
    (ex.MaskExplorer, {"toggled": [("The", 1)]}, r"toggled must hold integers, got \('The', 1\)"),
    (ex.MaskExplorer, {"toggled": [(1, 2, 3)]}, r"toggled must hold \(query, key\) pairs"),
    (ex.MaskExplorer, {"windows": 3}, "MaskExplorer has no 'windows'; there is ask, fill"),
    (ex.RealHeadsExplorer, {"sentence": 3}, "text must be a string, got int 3"),
    (ex.RealHeadsExplorer, {"word": 24}, "word must be an integer from 0 to 23, got 24"),
    (ex.CostExplorer, {"function": torch.softmax}, "function is not supported here"),
    (ex.SoftLookupExplorer, {"query": (3, 0)}, "must hold numbers from -1.5 to 1.5, got 3"),
    (ex.SoftLookupExplorer, {"query": (True, 0)}, "query must hold numbers, got True"),
    (ex.SoftLookupExplorer, {"query": torch.tensor(1.0)}, r"two numbers \(right, up\), got 1.0"),
    (ex.WhoAsksExplorer, {"word": " "}, "word must be a word, got ' '"),
    (ex.WhoAsksExplorer, {"word": "two words"}, "must be one that .* keeps whole, got 'two words'"),
    (ex.WhoAsksExplorer, {"word": "snorkel"}, "which it reads as 's ##nor ##kel'"),
    (ex.WhoAsksExplorer, {"word": "\N{DUCK}"}, r"which it reads as '\[UNK\]'"),
]


@pytest.mark.parametrize(("kind", "given", "words"), REFUSED)
def test_what_cannot_be_shown_gets_one_sentence(kind, given, words):
    with refused(words):
        kind(**given)


@pytest.mark.parametrize("check", [one_of(1, 2), one_of("a", "b"), near_one_of(0.1, 1.0), flag])
def test_a_hostile_value_is_refused_with_one_sentence(check):
    for value in HOSTILE[check is flag :]:  # True is a flag
        with refused("^x must be (.*, got |True)"):
            check("x", value, None)


def test_what_is_given_is_kept_in_one_form():
    assert near_one_of(0.2, 1.0)("x", torch.tensor(0.2).item(), None) == 0.2  # of 32 bits
    assert isinstance(near_one_of(0.2, 1.0)("x", 1, None), float)  # the browser sends 1 for 1.0
    query = ex.SoftLookupExplorer(query=torch.tensor([0.5**0.5, -0.0])).query
    assert repr(query) == "(0.7071, 0.0)"
    assert at(ex.WhoAsksExplorer, word="  Ocean ").word == "ocean"


def test_controls_describe_themselves_after_those_of_the_base_class():
    class Probe(ex.ScalingExplorer):
        many = Slider(0.5, (0.5, 2.0), label="many", presets={2.0: "two"})
        named = Slider(1, {1: "one", 2: "two"}, label="named", presets=(2,))

        def frame(self, **values):
            return {"say": "", "code": "", "bad": False}

    controls = Probe().data["controls"]
    assert [one.get("name") for one in controls] == ["d_k", "rate", "entries", "many", "named"]
    told = [(one["texts"], one["presets"]) for one in controls[3:]]
    assert told == [(["0.5", "2"], [[2.0, "two"]]), (["one", "two"], [[2, "two"]])]


# --- pages ----------------------------------------------------------------------------------------


def test_the_bundle_is_live_in_jupyter_and_holds_every_script_once_when_it_is_stored(monkeypatch):
    made = [ex.ScalingExplorer(), ex.MaskExplorer(), ex.MaskExplorer(padding=1)]
    monkeypatch.delenv("ATTNLAB_STATIC", raising=False)
    assert set(made[1]._repr_mimebundle_()) == {VIEW, BUNDLE, "text/html", "text/plain"}
    monkeypatch.setenv("ATTNLAB_STATIC", "1")
    bundles = [explorer._repr_mimebundle_() for explorer in made]
    assert [set(bundle) for bundle in bundles] == [{BUNDLE, "text/html", "text/plain"}] * 3
    marks = [f'"{bundle.key_of(name)}"] ??=' for name in ("base", "declared", "masks")]
    found = [[mark in bundle["text/html"] for mark in marks] for bundle in bundles]
    assert found == [[True, True, False], [False, False, True], [False, False, False]]


def test_a_page_is_escaped_and_its_numbers_are_json():
    evil = ["</script>", "<!--"]
    view = ex.HeadView([torch.full((1, 1, 2, 2), 0.5)], evil)
    page = view.to_html(library=False)
    assert "“&lt;/script&gt;”" in page
    (block,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    assert str(evil)[1:-1] in str(json.loads(block)["data"])
    assert "<" not in block


def test_numbers_are_sent_with_six_digits_and_what_is_not_finite_as_a_word():
    values = {"x": (0.12345678, NAN), 3: torch.tensor([INF, -INF, 0.25e-7]), "whole": 65536}
    sent = {"x": [0.123457, "NaN"], "3": ["Infinity", "-Infinity", 2.5e-8], "whole": 65536}
    assert bundle.sendable(values) == sent


def test_the_style_has_every_role_in_both_themes_and_the_shades_of_the_palette():
    light, dark, own = bundle.source_of("style").split("\\n", maxsplit=2)
    for name, role in palette.ROLES.items():
        assert f"--{name}: {role.light}" in light
        assert f"--{name}: {role.dark}" in dark
    pairs = json.loads(own.partition("SHADES = ")[2].partition(";")[0])
    wanted = [palette.shade(step / 100) for step in range(101)]
    assert pairs == [[palette.to_hex(shade), palette.ink_on(shade)] for shade in wanted]
