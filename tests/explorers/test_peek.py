"""PeekExplorer: the stored losses, the numbers of lesson 3, words that are true."""

import csv
import itertools
import math
import re

import pytest
import torch

from attnlab import causal_mask, data_path
from attnlab.explorers import PeekExplorer
from attnlab.explorers.peek import STEPS, best_possible
from tests.explorers.common import ExplorerTests, at, script

with data_path("peek_at_the_future.csv").open() as file:
    ROWS = list(csv.DictReader(file))
LOSSES = r"{} is (\d\.\d\d), against (\d\.\d\d) {{that}} the mask\."
WHOLE, SO_FAR = map(LOSSES.format, ("given the whole sentence", "Given only the words so far, it"))
WHAT = f"{WHOLE} {SO_FAR}"


def stored(causal, step):
    """Return [training, use] of all runs, read apart from the explorer."""
    wanted = [row for row in ROWS if (row["causal"], row["step"]) == (str(int(causal)), str(step))]
    assert len(wanted) == 4
    return torch.tensor([[float(row[name]) for row in wanted] for name in ("training", "use")])


class TestPeek(ExplorerTests):
    kind = PeekExplorer
    states = [{"causal": one, "step": n} for one, n in itertools.product((True, False), STEPS)]

    def expected(self, explorer):
        losses = stored(explorer.causal, explorer.step)
        return dict(zip(("whole_sentence", "words_so_far"), losses, strict=True))

    def check_words(self, explorer, said, result):
        causal, step = explorer.causal, explorer.step
        this, that = ("With", "without") if causal else ("Without", "with")
        assert said.startswith(f"{this} the causal mask, at step {step}, the loss given ")
        found = [float(loss) for loss in re.search(WHAT.format(that=that), said).groups()]
        own, other = (stored(which, step).mean(dim=1).tolist() for which in (causal, not causal))
        assert found == pytest.approx([own[0], other[0], own[1], other[1]], abs=0.00501)
        assert ("No model gets that far below 0.90 without peeking" in said) == (own[0] < 0.848)
        assert ("Guessing at random gives 2.08" in said) == (own[1] > 2.13 and step > 0)

    def test_frames_show_the_losses_of_both_models(self):
        for explorer in self.explorers():
            frame, place = explorer.frame_now(), STEPS.index(explorer.step)
            losses = [stored(causal, explorer.step) for causal in (False, True)]
            for what, (_, *cells) in enumerate(frame["board"]["body"]):
                means = [round(both[what].mean().item(), 2) for both in losses]
                wanted = [
                    f"{'✓ ' if mean < other else ''}**{mean:.2f}**\n"
                    f"{both[what].min():.2f} to {both[what].max():.2f}"
                    for both, mean, other in zip(losses, means, means[::-1], strict=True)
                ]
                assert [text for text, _ in cells] == wanted
                assert [look == "now" for _, look in cells] == [
                    not explorer.causal,
                    explorer.causal,
                ]
            so_far, whole = (values[place] for values in frame["curves"]["values"])
            own = losses[explorer.causal].mean(dim=1).tolist()
            assert [whole, so_far] == pytest.approx(own)

    @pytest.mark.parametrize("causal", [True, False])
    def test_the_word_to_be_guessed_lies_open_without_the_mask(self, causal):
        sight = at(PeekExplorer, causal=causal).frame_now()["sight"]
        for i, (looks, texts) in enumerate(zip(sight["looks"], sight["texts"], strict=True)):
            blocked = causal_mask(5)[i].logical_not().tolist() if causal else [False] * 5
            assert [look == "blocked" for look in looks] == blocked
            assert ["leak" in one for one in looks] == [j == i + 1 and not causal for j in range(5)]
            assert [text == "next" for text in texts] == [j == i + 1 for j in range(5)]


def test_no_row_of_the_table_is_left_out():
    assert len(ROWS) == 4 * len(TestPeek.states)
    assert {int(row["step"]) for row in ROWS} == set(STEPS)


def test_the_numbers_are_those_of_the_lesson():
    honest, peeking = (at(PeekExplorer, causal=causal).result for causal in (True, False))
    assert honest.best_possible == pytest.approx(0.898, abs=1e-3)
    assert honest.guessing == pytest.approx(math.log(8))
    assert peeking.whole_sentence.tolist() == pytest.approx([0.10] * 4, abs=0.01)
    assert peeking.words_so_far.aminmax() == pytest.approx((1.97, 2.97), abs=0.005)
    assert (peeking.words_so_far > peeking.guessing).sum() == 3
    for losses in honest[:2]:
        assert losses.tolist() == pytest.approx([0.91] * 4, abs=0.01)


def test_the_cheater_wins_one_and_loses_the_other_from_step_10_on():
    for step in STEPS[1:]:
        honest, peeking = (stored(causal, step).mean(dim=1) for causal in (True, False))
        assert peeking[0] < honest[0]
        assert peeking[1] > honest[1]


def test_the_language_is_the_one_that_was_learned():
    made = script("make_peek_at_the_future.py")
    assert best_possible() == pytest.approx(made.FLOOR)
    assert tuple(range(0, made.STEPS + 1, made.EVERY)) == STEPS
    assert at(PeekExplorer).result.guessing == math.log(made.WORDS)


def test_the_still_picture_shows_the_losses_alone_and_names_the_two_levels():
    (ax,) = at(PeekExplorer).figure().axes
    names = [text.get_text() for text in ax.get_yticklabels()]
    levels = dict(zip(names, ax.get_yticks(), strict=True))
    assert levels == {"0": 0, "best": best_possible(), "guess": math.log(8), "3": 3}
