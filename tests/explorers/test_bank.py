"""BankExplorer: torch results, hostile state, and when it may speak of selecting."""

import itertools
import re

import pytest
import torch
import torch.nn.functional as F

from attnlab.explorers import BankExplorer
from attnlab.explorers.bank import MIDDLE, SENTENCES, SHARPNESS, VECTORS

NAN = float("nan")
SUNK = [("river", -3, -2.4)]  # among the filler words, still on the side of nature


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("sharpness", SHARPNESS)
def test_result_is_what_torch_gives(sentence, sharpness):
    x = torch.tensor([VECTORS[word] for word in SENTENCES[sentence]], dtype=torch.float64)
    bank = x[[SENTENCES[sentence].index("bank")]]
    result = BankExplorer(sentence=sentence, sharpness=sharpness).result
    wanted = F.scaled_dot_product_attention(bank, x, x, scale=sharpness / 2**0.5)[0]
    torch.testing.assert_close(result.output, wanted)
    torch.testing.assert_close(result.weights @ x, wanted)
    torch.testing.assert_close(result.average, x.mean(dim=0))
    assert (len(result.words), 2) == result.vectors.shape


def test_sharpness_0_is_the_plain_average_and_8_is_one_word():
    for sentence in SENTENCES:
        result = BankExplorer(sentence=sentence, sharpness=0).result
        torch.testing.assert_close(result.output, result.average)
    assert BankExplorer(sharpness=8).result.weights.max() > 0.98
    assert BankExplorer(sharpness=1).result.weights.max() < 0.6


def test_river_and_loan_are_undecided_at_every_sharpness_until_one_is_moved():
    for sharpness in SHARPNESS:
        result = BankExplorer(sentence="both", sharpness=sharpness).result
        assert result.output[0].abs() < 1e-12
        assert result.average[0].abs() < 1e-12
    sunk = BankExplorer(sentence="both", moved=SUNK).result
    assert sunk.output[0] > 1
    assert sunk.average[0].abs() < 1e-12  # the control does not see content
    aside = BankExplorer(sentence="both", moved=[("river", 3, 2)]).result
    assert aside.output[0] > 1
    assert aside.average[0] > MIDDLE  # sideways it moves as well


def test_a_moved_word_lies_elsewhere_in_every_sentence():
    explorer = BankExplorer(moved=[("river", 1, -1), ("loan", 0, 0), ("river", 2, -2)])
    assert explorer.moved == (("loan", 0.0, 0.0), ("river", 2.0, -2.0))
    assert explorer.result.vectors[1].tolist() == [2, -2]
    explorer.sentence = "both"
    assert explorer.result.vectors[4].tolist() == [2, -2]
    explorer.moved = []
    assert explorer.result.vectors[4].tolist() == [-3, 2]


# --- what it says ---------------------------------------------------------------------------------

PLACES = (
    (),
    SUNK,
    [("river", 3, 2)],
    [("loan", -3, -2.5)],
    [("bank", 0, 2.5), ("river", -3.5, 1), ("the", -3.5, 0)],
    [("bank", 0, -2)],
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_sentence_is_true_at_every_stop(sentence):
    for sharpness, moved in itertools.product(SHARPNESS, PLACES):
        explorer = BankExplorer(sentence=sentence, sharpness=sharpness, moved=moved)
        said, result = explorer.say(), explorer.result
        here, control = result.output[0].item(), result.average[0].item()
        ends = re.findall(r"ends (in the middle|[\d.]+ towards (?:money|nature))", said)
        for end, x in zip(ends, (here, control), strict=sharpness > 0):
            assert end == expected_end(x)
        sides = [0 if abs(x) < MIDDLE else x / abs(x) for x in (here, control)]
        assert ("They select" in said) == (sides[0] != 0 and sides[0] != sides[1])
        assert ("mixing is enough" in said) == (sharpness > 0 and sides[0] == sides[1] != 0)
        for word in re.findall(r"most to (?:and |“(\w+)” )+", said):
            place = result.words.index(word)
            assert result.weights[place] > result.weights.max() - 0.005


def expected_end(x):
    if abs(x) < MIDDLE:
        return "in the middle"
    return f"{abs(x) + 1e-9:.2f} towards {'money' if x > 0 else 'nature'}"


def test_what_is_said_at_places_worth_a_visit():
    assert "“river” (0.54)" in BankExplorer().say()
    assert "mixing is enough" in BankExplorer().say()
    both = BankExplorer(sentence="both")
    assert "“river” and “loan” (0.37 each). The plain average ends in the middle too" in both.say()
    both.moved = SUNK
    assert "They select" in both.say()
    both.sharpness = 0
    assert "nothing is selected" in both.say()
    alone = BankExplorer(sharpness=8, moved=[("bank", 0, 2.5)])
    assert "most to itself (1.00)" in alone.say()
    assert "keep “bank” undecided" in alone.say()


# --- state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moved", "error", "sentence"),
    [
        (None, TypeError, "moved must be a list of \\(word, x, y\\), got None"),
        ("river", TypeError, "moved must be a list"),
        (["river"], TypeError, "moved must hold \\(word, x, y\\), got 'river'"),
        ([("river", 1)], TypeError, "must hold \\(word, x, y\\)"),
        ([("rivers", 1, 1)], ValueError, "must name words of river, .*, got 'rivers'"),
        ([(3, 1, 1)], ValueError, "got 3"),
        ([("river", "1", 1)], TypeError, "must give 'river' two numbers, got '1'"),
        ([("river", True, 1)], TypeError, "got True"),
        ([("river", NAN, 1)], ValueError, "within ±3.5 across and ±2.5 up, got nan"),
        ([("river", 1, 2.51)], ValueError, "within ±3.5 across and ±2.5 up, got 2.51"),
        ([("river", -(10**400), 0)], ValueError, "within ±3.5 across"),
        ([["x" * 10_000, 0, 0]], ValueError, "got 'xxx.*\\.\\.\\."),
    ],
)
def test_a_word_that_cannot_be_moved_gets_one_sentence(moved, error, sentence):
    with pytest.raises(error, match=sentence) as found:
        BankExplorer(moved=moved)
    assert len(str(found.value)) < 200


def test_the_still_picture_draws_lines_as_wide_as_the_weights():
    explorer = BankExplorer(sentence="both", moved=SUNK)
    plane, bars = explorer.figure().axes
    result = explorer.result
    widths = torch.tensor([line.get_linewidth() for line in plane.lines]).double()
    torch.testing.assert_close(widths / widths.sum(), result.weights)
    starts = torch.tensor([line.get_xydata()[0].tolist() for line in plane.lines])
    torch.testing.assert_close(starts.double(), result.vectors)
    ends = [point.get_offsets()[0].tolist() for point in plane.collections[-2:]]
    assert ends == [result.output.tolist(), result.average.tolist()]
    assert [bar.get_width() for bar in bars.patches[:8]] == result.weights.tolist()
    assert {bar.get_width() for bar in bars.patches[8:]} == {1 / 8}
