"""What all explorers share: state, words, bundles, scripts."""

import json
import re

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch

from attnlab import explorers
from attnlab.explorers import Explorer, MaskExplorer, ScalingExplorer, _page
from attnlab.explorers._base import one_of
from tools.compare_outputs import JSON_BLOCK, compare_outputs

KINDS = [getattr(explorers, name) for name in explorers.__all__ if name != "Explorer"]
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch, request):
    """No output of this kernel has stored a script yet; drawing, which is slow, is left out."""
    monkeypatch.setattr(_page, "_stored", set())
    if "picture" not in request.node.name:
        monkeypatch.setattr(Explorer, "_picture", lambda self: b"no picture")


@pytest.mark.parametrize("kind", KINDS)
def test_equal_explorers_have_equal_words_and_pages(kind):
    one, other = kind(), kind()
    assert repr(one) == repr(other) == f"{kind.__name__}()"
    assert one.to_html() == other.to_html()


def test_repr_names_what_is_changed_and_makes_the_same_again():
    explorer = MaskExplorer(ask=False, padding=[2, 0], toggled=[[1, 3]])
    assert repr(explorer) == "MaskExplorer(ask=False, padding=(0, 2), toggled=((1, 3),))"
    assert eval(repr(explorer)).to_html() == explorer.to_html()


@pytest.mark.parametrize("kind", KINDS)
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
    scripts = {name: f'"{_page.key_of(name)}"] ??=' for name in ("base", "masks", "scaling")}
    found = {name: [mark in page for page in pages] for name, mark in scripts.items()}
    assert found == {
        "base": [True, False, False, False],
        "masks": [False, True, False, False],
        "scaling": [True, False, False, False],
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


def test_pages_ask_for_nothing_from_elsewhere():
    for kind in KINDS:
        text = kind().to_html().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//cdn|@import|url\(", text)


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


def test_numbers_are_rounded_and_what_is_not_finite_is_a_word():
    values = torch.tensor([[0.123456, float("nan")], [float("inf"), float("-inf")]])
    assert _page.numbers(values) == [[0.1235, "NaN"], ["Infinity", "-Infinity"]]
    assert _page.significant(0.000123456) == 0.0001235


@pytest.mark.parametrize(
    ("name", "value"),
    [("ask", 1), ("ask", "yes"), ("large", None), ("ask", float("nan"))],
)
def test_flags_are_true_or_false(name, value):
    with pytest.raises(TypeError, match=f"{name} must be True or False"):
        MaskExplorer(**{name: value})


def test_a_name_that_is_no_state_is_refused():
    with pytest.raises(TypeError, match="MaskExplorer has no 'windows'; there is ask, fill"):
        MaskExplorer(windows=3)
    with pytest.raises(TypeError, match="function is not supported here"):
        ScalingExplorer(lambda scores: scores)
    with pytest.raises(TypeError, match="function must be callable, got int"):
        MaskExplorer(function=3)


def test_a_refused_value_leaves_the_state_alone():
    explorer = ScalingExplorer(d_k=8)
    with pytest.raises(ValueError, match="d_k must be one of 1, 2, 4"):
        explorer.d_k = 3
    assert explorer.d_k == 8


def test_one_of_tells_kinds_apart():
    check = one_of(1, 2)
    for wrong in (True, 1.0, "1", None, [1], float("nan")):
        with pytest.raises(ValueError, match="x must be one of 1, 2"):
            check("x", wrong, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_is_no_pyplot_figure_and_has_the_stated_size(kind):
    explorer = kind()
    before = plt.get_fignums()
    figure = explorer.figure()
    assert plt.get_fignums() == before
    assert tuple(figure.get_size_inches()) == explorer.figsize


@pytest.mark.parametrize("kind", KINDS)
def test_state_can_be_read_back_and_told_to_the_browser(kind):
    explorer = kind()
    assert explorer.data["state"] == sorted(explorer.state())
    assert set(kind.state_names()) >= {"ask", "large"}
    assert isinstance(explorer, Explorer)


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_small_and_the_same_again(kind):
    first, second = (
        re.findall(r"base64,([^\"]+)", kind(ask=False).to_html(library=False)) for _ in range(2)
    )
    assert first == second
    assert len(first[0]) < 100_000
