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


# --- hostile states -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "error", "sentence"),
    [
        ({"sentence": "money"}, ValueError, "sentence must be one of 'river', 'loan', 'both'"),
        ({"sentence": ["river"]}, ValueError, "sentence must be one of"),
        ({"sharpness": 3}, ValueError, "sharpness must be one of 0, 0.25, .*, 8, got 3"),
        ({"sharpness": NAN}, ValueError, "got nan"),
        ({"sharpness": True}, ValueError, "got True"),
        ({"sharpness": "1"}, ValueError, "got '1'"),
        ({"sharpness": None}, ValueError, "got None"),
        ({"sharpness": torch.tensor(1.0)}, ValueError, "got tensor"),
        ({"moved": None}, TypeError, "moved must be a list of \\(word, x, y\\), got None"),
        ({"moved": "river"}, TypeError, "moved must be a list"),
        ({"moved": ["river"]}, TypeError, "moved must hold \\(word, x, y\\), got 'river'"),
        ({"moved": [("river", 1)]}, TypeError, "must hold \\(word, x, y\\)"),
        ({"moved": [("rivers", 1, 1)]}, ValueError, "must name words of river, .*, got 'rivers'"),
        ({"moved": [(3, 1, 1)]}, ValueError, "got 3"),
        ({"moved": [("river", "1", 1)]}, TypeError, "must give 'river' two numbers, got '1'"),
        ({"moved": [("river", True, 1)]}, TypeError, "got True"),
        ({"moved": [("river", NAN, 1)]}, ValueError, "within ±3.5 across and ±2.5 up, got nan"),
        ({"moved": [("river", 1, 2.51)]}, ValueError, "within ±3.5 across and ±2.5 up, got 2.51"),
        ({"moved": [("river", -(10**400), 0)]}, ValueError, "within ±3.5 across"),
        ({"moved": [["x" * 10_000, 0, 0]]}, ValueError, "got 'xxx.*\\.\\.\\."),
    ],
)
def test_a_hostile_state_gets_one_sentence(state, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        BankExplorer(**state)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)
