"""Everything that features.txt lists is there: names, arguments, attributes, make targets."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PARTS = re.split(r"^\[(.+)\]\n", (HERE / "features.txt").read_text(encoding="utf-8"), flags=re.M)
FEATURES = {
    place: [line.split() for line in lines.split("\n") if line]
    for place, lines in zip(PARTS[1::2], PARTS[2::2], strict=True)
}
MODULES = [place for place in FEATURES if place not in ("make", "attnlab.explorers")]


def has(owner: object, path: str) -> bool:
    """Return whether an object or a class has an attribute, such as ``.result.weights``."""
    for name in path.split(".")[1:]:
        if inspect.isclass(owner):  # an attribute of its instances is in its docstring
            documented = re.search(rf"^ +([\w, ]+, )?{name}\b[\w, ]* :", owner.__doc__ or "", re.M)
            if not (hasattr(owner, name) or documented):
                return False
        elif not hasattr(owner, name):
            return False
        else:
            owner = getattr(owner, name)
    return True


def lacks(module: object, name: str, details: list[str]) -> list[str]:
    """Return what a module lacks of the things that a line promises."""
    if not hasattr(module, name):
        return [name]
    feature = getattr(module, name)
    arguments = [detail for detail in details if not detail.startswith(".")]
    known = inspect.signature(feature).parameters if arguments else {}
    missing = [argument for argument in arguments if argument not in known]
    missing += [d for d in details if d.startswith(".") and not has(feature, d)]
    return [f"{name}: {detail}" for detail in missing]


@pytest.mark.parametrize("place", MODULES)
def test_every_name_is_there_with_its_arguments_and_attributes(place):
    module = importlib.import_module(place)
    assert [gap for name, *details in FEATURES[place] for gap in lacks(module, name, details)] == []


@pytest.mark.parametrize("line", FEATURES["attnlab.explorers"], ids=lambda line: line[0])
def test_every_explorer_has_its_state_and_result(line):
    name, *details = line
    kind = getattr(importlib.import_module("attnlab.explorers"), name)
    arguments = {detail for detail in details if not detail.startswith(".")}
    known = {*kind.class_trait_names(state=True), *inspect.signature(kind.__init__).parameters}
    assert arguments <= known
    owner = kind if name == "Explorer" else kind(ask=False)
    assert [detail for detail in details if detail.startswith(".") and not has(owner, detail)] == []


def test_every_make_target_is_there_and_explained():
    makefile = (HERE.parent / "Makefile").read_text(encoding="utf-8")
    explained = set(re.findall(r"^(\w+):.*##", makefile, flags=re.M))
    assert {name for (name,) in FEATURES["make"]} <= explained


@pytest.mark.parametrize(
    ("details", "missing"),
    [
        (["plot_attention", "weights", "colorbar"], []),
        (["plot_attention", "weights", "hue"], ["plot_attention: hue"]),
        (["plot_all", "weights"], ["plot_all"]),
        (["Figure", ".savefig", ".saved"], ["Figure: .saved"]),
    ],
)
def test_what_is_missing_is_named(details, missing):
    plotting = importlib.import_module("attnlab.plotting")
    assert lacks(plotting, details[0], details[1:]) == missing
