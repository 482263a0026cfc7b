"""Colours: contrast as WCAG 2.2 computes it, a ramp that only grows darker, one value per role."""

import itertools

import pytest

from attnlab import palette


def contrast(one, other):
    high, low = sorted(map(palette.luminance, (one, other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def rgb(colour):
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


@pytest.mark.parametrize(
    ("colour", "luminance"),  # the examples of WCAG 2.2 and its formula by hand
    [((255, 0, 0), 0.2126), ((0, 255, 0), 0.7152), ((0, 0, 255), 0.0722), ((10, 10, 10), 0.003035)],
)
def test_luminance_follows_the_definition(colour, luminance):
    assert palette.luminance(colour) == pytest.approx(luminance, rel=1e-3)


def test_the_ramp_starts_at_white_and_only_grows_darker():
    shades = [palette.shade(i / 100) for i in range(101)]
    luminances = [palette.luminance(shade) for shade in shades]
    assert (shades[0], shades[-1]) == ((255, 255, 255), palette.RAMP[-1])
    assert (palette.shade(-0.5), palette.shade(1.5)) == (shades[0], shades[-1])
    assert luminances == sorted({*luminances}, reverse=True)
    assert palette.shade(3 / 8) == palette.RAMP[3]


def test_ink_is_readable_on_every_shade_and_on_grey():
    colours = [palette.shade(i / 200) for i in range(201)] + [(i, i, i) for i in range(256)]
    assert min(contrast(colour, rgb(palette.ink_on(colour))) for colour in colours) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_on_every_background(theme):
    texts, pages = ("scaled", "raw", "good", "other", "ink", "mute"), "paper soft cool warm".split()
    for names in itertools.product(texts, pages):
        text, page = (rgb(getattr(palette.ROLES[name], theme)) for name in names)
        assert contrast(text, page) >= 4.5, names


def test_every_role_has_its_own_property_in_both_themes():
    for dark in (False, True):
        found = dict(line.split(": ") for line in palette.css(dark=dark).split("; "))
        assert found == {f"--{name}": role[dark] for name, role in palette.ROLES.items()}
    assert palette.to_hex((8, 48, 107)) == "#08306b"
