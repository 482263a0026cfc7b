"""BankExplorer: torch results, hostile state, and when it may speak of selecting."""

import itertools
import re

import torch
import torch.nn.functional as F
from matplotlib.colors import to_rgb

from attnlab.explorers import BankExplorer
from attnlab.explorers.bank import MIDDLE, SENTENCES, SHARPNESS, VECTORS
from attnlab.palette import GREEN, ORANGE
from tests.explorers.common import ExplorerTests, at

SUNK = [("river", -3, -2.4)]  # among the filler words, still on the side of nature
PLACES = (
    (),
    SUNK,
    [("river", 3, 2)],
    [("loan", -3, -2.5)],
    [("bank", 0, 2.5), ("river", -3.5, 1), ("the", -3.5, 0)],
    [("bank", 0, -2)],
)


def expected_end(x):
    if abs(x) < MIDDLE:
        return "in the middle"
    return f"{abs(x) + 1e-9:.2f} units towards {'money' if x > 0 else 'nature'}"


class TestBank(ExplorerTests):
    kind = BankExplorer
    states = [
        {"sentence": sentence, "sharpness": sharpness, "moved": moved}
        for sentence, sharpness, moved in itertools.product(SENTENCES, SHARPNESS, PLACES)
    ]

    def expected(self, explorer):
        words = SENTENCES[explorer.sentence]
        vectors = VECTORS | {word: place for word, *place in explorer.moved}
        x = torch.tensor([vectors[word] for word in words], dtype=torch.float64)
        bank, scale = x[[words.index("bank")]], explorer.sharpness / 2**0.5
        weights = F.scaled_dot_product_attention(bank, x, torch.eye(len(x)).double(), scale=scale)
        output = F.scaled_dot_product_attention(bank, x, x, scale=scale)
        average = x.mean(dim=0)
        return {"vectors": x, "weights": weights[0], "output": output[0], "average": average}

    def check_words(self, explorer, said, result):
        here, control = result.output[0].item(), result.average[0].item()
        places = r"ends up (?:on the same side, )?(in the middle|[\d.]+ units towards \w+)"
        ends = re.findall(places, said)
        for end, x in zip(ends, (here, control), strict=explorer.sharpness > 0):
            assert end == expected_end(x)
        sides = [0 if abs(x) < MIDDLE else x / abs(x) for x in (here, control)]
        assert ("They select" in said) == (sides[0] != 0 and sides[0] != sides[1])
        enough = explorer.sharpness > 0 and sides[0] == sides[1] != 0
        assert ("mixing is enough" in said) == ("on the same side" in said) == enough
        for word in re.findall(r"most to (?:and |“(\w+)” )+", said):
            place = result.words.index(word)
            assert result.weights[place] > result.weights.max() - 0.005


def test_sharpness_8_is_one_word():
    assert at(BankExplorer, sentence="river", sharpness=8).result.weights.max() > 0.98
    assert at(BankExplorer, sentence="river", sharpness=1).result.weights.max() < 0.6


def test_river_and_loan_are_undecided_at_every_sharpness_until_one_is_moved():
    for sharpness in SHARPNESS:
        result = at(BankExplorer, sentence="both", sharpness=sharpness).result
        assert result.output[0].abs() < 1e-12
        assert result.average[0].abs() < 1e-12
    sunk = at(BankExplorer, sentence="both", moved=SUNK).result
    assert sunk.output[0] > 1
    assert sunk.average[0].abs() < 1e-12  # the control does not see content
    aside = at(BankExplorer, sentence="both", moved=[("river", 3, 2)]).result
    assert aside.output[0] > 1
    assert aside.average[0] > MIDDLE  # sideways it moves as well


def test_a_moved_word_lies_elsewhere_in_every_sentence():
    explorer = BankExplorer(moved=[("river", 1, -1), ("loan", 0, 0), ("river", 2, -2)])
    assert explorer.moved == (("loan", 0.0, 0.0), ("river", 2.0, -2.0))
    assert explorer.result.vectors[4].tolist() == [2, -2]
    explorer.sentence = "river"
    assert explorer.result.vectors[1].tolist() == [2, -2]
    explorer.sentence = "both"
    explorer.moved = []
    assert explorer.result.vectors[4].tolist() == [-3, 2]


def test_what_is_said_at_places_worth_a_visit():
    def say(**state):
        return at(BankExplorer, **state).say()

    alike = "“river” and “loan” (0.37 each). The plain average ends up in the middle as well"
    assert alike in say()
    assert "They select" in say(moved=SUNK)
    assert "nothing is selected" in say(moved=SUNK, sharpness=0)
    assert "“river” (0.54)" in say(sentence="river")
    assert "mixing is enough" in say(sentence="river")
    alone = say(sentence="river", sharpness=8, moved=[("bank", 0, 2.5)])
    assert "most to itself (1.00)" in alone
    assert "keep “bank” undecided" in alone


def test_the_still_picture_draws_lines_as_wide_as_the_weights():
    explorer = at(BankExplorer, sentence="both", moved=SUNK)
    plane, bars = explorer.figure().axes
    result = explorer.result
    nature, money = sorted(plane.patches, key=lambda patch: patch.get_x())
    assert nature.get_facecolor()[:3] == to_rgb(GREEN)
    assert money.get_facecolor()[:3] == to_rgb(ORANGE)
    widths = torch.tensor([line.get_linewidth() for line in plane.lines]).double()
    torch.testing.assert_close(widths / widths.sum(), result.weights)
    starts = torch.tensor([line.get_xydata()[0].tolist() for line in plane.lines])
    torch.testing.assert_close(starts.double(), result.vectors)
    ends = [point.get_offsets()[0].tolist() for point in plane.collections[-2:]]
    assert ends == [result.output.tolist(), result.average.tolist()]
    assert [bar.get_width() for bar in bars.patches[:8]] == result.weights.tolist()
    assert {bar.get_width() for bar in bars.patches[8:]} == {1 / 8}
