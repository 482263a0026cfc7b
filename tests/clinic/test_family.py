"""Every wrong way of the family, made into a function, is named: the clinic's list of mutants."""

import pytest

from attnlab.clinic import diagnose
from attnlab.clinic.family import STEPS
from attnlab.clinic.sample import Sample, Sizes
from attnlab.clinic.search import Recipe
from tests.clinic.parts import answer

# With one head the width of the model is d_k, so its factor is right, or that of another way.
ONE_HEAD = {"by the square root of the width": None, "by the width of the model": "scale-d"}
WRONG = [
    pytest.param(step, way, id=f"{step}: {way.cause} {place}")
    for step, ways in STEPS.items()
    if step != "hiding"  # those of the mask, which are tried as such
    for place, way in enumerate(ways)
    if way.cause
]


def as_function(recipe):
    def attention(query, key, value, mask=None):
        lead = (1, 1, *query.shape[:-2])[-2:] if query.ndim != 3 else (len(query), 1)
        parts = [part.reshape(*lead, *part.shape[-2:]) for part in (query, key, value)]
        sizes = Sizes(*lead, query.shape[-2], *key.shape[-2:], value.shape[-1])
        if mask is not None:
            mask = mask.bool() if mask.ndim == 4 else mask.bool().reshape(-1, 1, *mask.shape[-2:])
        output = recipe.output(Sample(*parts, parts[2], sizes, mask))
        return output.reshape(*query.shape[:-2], *output.shape[-2:]).to(query.dtype)

    return attention


@pytest.mark.parametrize(("step", "way"), WRONG)
def test_it_is_named(step, way):
    report = diagnose(as_function(Recipe(**{step: way})), kind="attention", mask="allowed")
    same_here = [name for words, name in ONE_HEAD.items() if words in way.words]
    wanted = same_here[0] if same_here else way.cause
    assert answer(report) == wanted, repr(report)


def test_a_factor_of_the_width_of_the_model_is_named_where_there_are_heads():
    for way in (way for way in STEPS["scale"] if way.cause == "scale-model"):
        attention = as_function(Recipe(scale=way))

        def of_heads(q, k, v, attention=attention):
            """Take q (N, H, L, D)."""
            return attention(q, k, v)

        assert diagnose(of_heads).findings[0].name == "scale-model"
