"""RowExplorer: the steps give what attnlab and torch give, and every line of words is true."""

import itertools
import math
import re

import pytest
import torch
import torch.nn.functional as F

from attnlab import attention_scores, attention_weights, causal_mask, load_table
from attnlab.explorers import RowExplorer
from attnlab.explorers import row as module

STATES = [*itertools.product(module.TOKENS, module.MASKS)]
NUMBER = r"\d+\.\d{3}"


def attention_of(query, mask):
    """Return scores, weights and output of one query, by the package and by torch."""
    x, row = load_table("he_is_awesome.csv").values, module.TOKENS.index(query)
    may = None if mask == "none" else causal_mask(3)
    scores = attention_scores(x, x)
    output = F.scaled_dot_product_attention(x, x, x, attn_mask=may)
    return scores[row], attention_weights(scores, attn_mask=may)[row], output[row]


@pytest.mark.parametrize(("query", "mask"), STATES)
def test_the_steps_give_what_attention_gives(query, mask):
    result = RowExplorer(query=query, mask=mask).result
    scores, weights, output = attention_of(query, mask)
    torch.testing.assert_close(result.scores, scores)
    torch.testing.assert_close(result.weights, weights)
    torch.testing.assert_close(result.output, output)
    assert torch.equal(result.mask, weights > 0)  # True may attend


def test_the_numbers_are_those_of_lesson_1():
    assert list(module.TOKENS) == module.table().tokens
    he, awesome = (RowExplorer(query=query).result for query in ("He", "awesome"))
    assert module.texts(he.raw) == ["0.300", "0.700", "0.200"]
    assert module.texts(awesome.raw) == ["0.200", "0.680", "0.860"]
    assert module.texts(awesome.output) == ["0.543", "0.263", "0.363", "0.463"]
    assert f"{he.weights.max():.3f} {awesome.weights.max():.3f}" == "0.385 0.380"


@pytest.mark.parametrize(("query", "mask"), STATES)
def test_the_lines_of_pytorch_give_each_step(query, mask):
    explorer = RowExplorer(query=query, mask=mask)
    x, result = module.table().values, explorer.result
    names = {"torch": torch, "math": math, "query": x, "key": x, "value": x}
    after = ("raw", "scores", "masked", "positive", "total", "weights", "output")
    for step, made in enumerate(after, 1):
        exec(explorer.frame(mask, query, step)["code"], names)
        made_last = "scores" if made == "masked" else made
        torch.testing.assert_close(names[made_last], getattr(result, made))


@pytest.mark.parametrize(("query", "mask"), STATES)
def test_the_arithmetic_by_hand_is_right_and_ends_in_the_cells(query, mask):
    frames = [RowExplorer().frame(mask, query, step) for step in range(1, 8)]
    rows, hand = frames[0]["strips"]["rows"], [frame["hand"]["lines"] for frame in frames]
    cells = [[row["cells"] for row in rows if row["step"] == step] for step in (1, 2, 4, 6)]
    for (wanted,), step in zip(cells, (1, 2, 4, 6), strict=True):
        ends = [line.rpartition("= ")[2] for line in hand[step - 1]]
        assert ends == wanted
    sums = [row["sum"] for row in rows if row["step"] == 7]
    assert [line.rpartition("= ")[2] for line in hand[6]] == sums
    for step in (1, 2, 4, 5, 6, 7):
        for line in hand[step - 1]:
            left, right = line.partition(": ")[2].replace("·", "*").split(" = ")
            value = eval(left.replace("−∞", "-math.inf"), {"exp": math.exp, "math": math})
            assert value == pytest.approx(float(right), abs=0.0021), line


def test_products_stand_under_their_keys_and_add_up_to_the_output():
    result = RowExplorer(query="is").result
    rows = [row for row in module.table_rows(result) if row["step"] == 7]
    for feature, row in enumerate(rows):
        wanted = [
            f"{result.weights[key] * module.table().values[key, feature]:.3f}" for key in range(3)
        ]
        assert row["cells"] == wanted
        assert row["sum"] == f"{result.output[feature]:.3f}"


@pytest.mark.parametrize(("query", "mask"), STATES)
def test_the_sentence_is_true_at_every_step(query, mask):
    says = [RowExplorer(query=query, mask=mask, step=step).say() for step in range(1, 8)]
    scores, weights, output = attention_of(query, mask)
    found = [[float(number) for number in re.findall(NUMBER, say)] for say in says]
    near = {"abs": 6e-4}
    assert found[0] == pytest.approx((2 * scores).tolist(), **near)
    assert found[1] == pytest.approx(scores.tolist(), **near)
    allowed = scores[weights > 0]
    assert found[4] == pytest.approx([allowed.exp().sum().item()], **near)
    assert found[5] == pytest.approx([weights.max().item(), 1.0], **near)
    assert found[6] == pytest.approx(output.tolist(), **near)
    much = "all" if weights.max() == 1 else "the largest weight"
    assert f"“{module.TOKENS[weights.argmax()]}” gets {much}" in says[5]
    assert len(allowed) == 3 or "e to −∞ is 0" in says[3]
    assert "**" not in "".join(says)


def test_the_sentence_about_the_mask_names_what_is_blocked():
    def say(query, mask):
        return RowExplorer(query=query, mask=mask, step=3).say()

    assert say("He", "causal").endswith("what comes later: “is” and “awesome” → −∞.")
    assert say("is", "causal").endswith("what comes later: “awesome” → −∞.")
    assert "blocks nothing here: no key comes after “awesome”" in say("awesome", "causal")
    assert say("He", "none") == "No mask: every key may be looked at, and nothing changes."


def test_the_prediction_has_one_correct_answer_and_names_all_that_it_needs():
    """It is asked while the picture is veiled."""
    asked = RowExplorer().prediction
    scores, weights, _ = attention_of("awesome", "none")
    right = [option == f"{weights[2]:.3f}" for option in asked.options]
    assert right == [False, True, False]
    assert asked.right == 1
    assert f"**{asked.options[1]}**" in asked.why
    left, whole = map(float, re.search(r"itself, (\S+) of (\S+);", asked.why).groups())
    assert f"{left / whole:.3f}" == asked.options[0]
    named = [float(score) for score in re.findall(NUMBER, asked.ask)]
    assert named == pytest.approx(scores.tolist(), abs=6e-4)
    assert re.findall("“(.*?)”", asked.ask)[:3] == list(module.TOKENS)


def test_the_asked_cell_is_blank_for_the_asked_query_alone():
    for query, mask in STATES:
        asked = RowExplorer().frame(mask, query, 1)["strips"]["asked"]
        wanted = {"step": 6, "key": 2} if (query, mask) == ("awesome", "none") else None
        assert asked == wanted


@pytest.mark.parametrize("step", [1, 3, 5, 7])
def test_the_figure_shows_the_steps_that_are_taken(step):
    ax = RowExplorer(step=step, mask="causal", query="He").figure().axes[0]
    cells = [text.get_text() for text in ax.texts]
    rows = module.table_rows(module.compute("He", "causal"))
    wanted = [word for row in rows if row["step"] <= step for word in (*row["cells"], row["sum"])]
    names = {f"{i}  {name}" for i, name in enumerate(module.STEPS, 1)} | {*module.TOKENS, "sum", ""}
    assert [word for word in cells if word not in names] == [word for word in wanted if word]
    assert ("−∞" in cells) == (step >= 3)
