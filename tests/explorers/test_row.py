"""RowExplorer: the steps give what attnlab and torch give, and every line of words is true."""

import itertools
import math
import re

import pytest
import torch
import torch.nn.functional as F
from matplotlib.colors import to_rgb

from attnlab import attention_scores, attention_weights, causal_mask, load_table, palette
from attnlab.explorers import RowExplorer
from attnlab.explorers import row as module
from tests.explorers.common import assert_same, at

STATES = [*itertools.product(module.TOKENS, module.MASKS)]
NUMBER = r"\d+\.\d{3}"
every_row = pytest.mark.parametrize(("query", "mask"), STATES)


def attention_of(query, mask):
    """Return scores, weights and output of one query, by the package and by torch."""
    x, row = load_table("he_is_awesome.csv").values, module.TOKENS.index(query)
    may = None if mask == "none" else causal_mask(3)
    scores = attention_scores(x, x)
    output = F.scaled_dot_product_attention(x, x, x, attn_mask=may)
    return scores[row], attention_weights(scores, attn_mask=may)[row], output[row]


def steps(query, mask):
    """Take the explorer of a row through its seven steps."""
    return (at(RowExplorer, query=query, mask=mask, step=step) for step in range(1, 8))


@every_row
def test_each_step_gives_what_attention_gives_and_its_lines_of_pytorch_too(query, mask):
    x = module.table().values
    names = {"torch": torch, "math": math, "query": x, "key": x, "value": x}
    after = ("raw", "scores", "masked", "positive", "total", "weights", "output")
    for explorer, made in zip(steps(query, mask), after, strict=True):
        exec(explorer.frame_now()["code"], names)
        last = "scores" if made == "masked" else made
        assert_same(names[last], getattr(explorer.result, made), explorer)
    marks = [row[-1] for row in explorer.frame_now()["inputs"]["body"]]
    assert marks == ["◀ query" if token == query else "" for token in module.TOKENS]
    result = explorer.result
    wanted = attention_of(query, mask)
    for got, one in zip((result.scores, result.weights, result.output), wanted, strict=True):
        assert_same(got, one, explorer)
    assert torch.equal(result.mask, wanted[1] > 0)  # True may attend


def test_the_numbers_are_those_of_lesson_1():
    assert list(module.TOKENS) == module.table().tokens
    he, awesome = (RowExplorer(query=query).result for query in ("He", "awesome"))
    assert module.texts(he.raw) == ["0.300", "0.700", "0.200"]
    assert module.texts(awesome.raw) == ["0.200", "0.680", "0.860"]
    assert module.texts(awesome.output) == ["0.543", "0.263", "0.363", "0.463"]
    assert f"{he.weights.max():.3f} {awesome.weights.max():.3f}" == "0.385 0.380"


@every_row
def test_the_arithmetic_by_hand_is_right_and_ends_in_the_cells(query, mask):
    frames = [explorer.frame_now() for explorer in steps(query, mask)]
    rows, hand = frames[0]["strips"]["rows"], [frame["hand"]["lines"] for frame in frames]
    for step in (1, 2, 4, 6):
        (wanted,) = [row["cells"] for row in rows if row["step"] == step]
        assert [line.rpartition("= ")[2] for line in hand[step - 1]] == wanted
    sums = [row["sum"] for row in rows if row["step"] == 7]
    assert [line.rpartition("= ")[2] for line in hand[6]] == sums
    for line in itertools.chain(*hand[:2], *hand[3:]):
        left, right = line.partition(": ")[2].replace("·", "*").split(" = ")
        value = eval(left.replace("−∞", "-math.inf"), {"exp": math.exp, "math": math})
        assert value == pytest.approx(float(right), abs=0.0021), line


def test_products_stand_under_their_keys_and_add_up_to_the_output():
    result = RowExplorer(query="is").result
    rows = [row for row in module.table_rows(result) if row["step"] == 7]
    products = (result.weights[:, None] * module.table().values).T
    for row, wanted, total in zip(rows, products, result.output, strict=True):
        assert row["cells"] == [f"{product:.3f}" for product in wanted]
        assert row["sum"] == f"{total:.3f}"


@every_row
def test_the_sentence_is_true_at_every_step(query, mask):
    says = [explorer.say() for explorer in steps(query, mask)]
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
    assert len(allowed) == 3 or "e to the power of −∞ is 0" in says[3]
    assert "**" not in "".join(says)


@pytest.mark.parametrize(
    ("query", "mask", "words"),
    [
        ("He", "causal", "later keys: the scores of “is” and “awesome” become −∞."),
        ("is", "causal", "later keys: the score of “awesome” becomes −∞."),
        ("awesome", "causal", "blocks nothing here, because no key comes after “awesome”"),
        ("He", "none", "no mask, so the query may attend to every key, and nothing changes."),
    ],
)
def test_the_sentence_about_the_mask_names_what_is_blocked(query, mask, words):
    assert words in at(RowExplorer, query=query, mask=mask, step=3).say()


def test_the_prediction_has_one_correct_answer_and_names_all_that_it_needs():
    """It is asked while the picture is veiled."""
    asked = RowExplorer().prediction
    scores, weights, _ = attention_of("awesome", "none")
    right = [option == f"{weights[2]:.3f}" for option in asked.options]
    assert right == [False, True, False]
    assert asked.right == 1
    assert f"**{asked.options[1]}**" in asked.why
    left, whole = map(float, re.search(r"scores, (\S+) by (\S+)\. ", asked.why).groups())
    assert f"{left / whole:.3f}" == asked.options[0]
    named = [float(score) for score in re.findall(NUMBER, asked.ask)]
    assert named == pytest.approx(scores.tolist(), abs=6e-4)
    assert re.findall("“(.*?)”", asked.ask)[:3] == list(module.TOKENS)
    for query, mask in STATES:  # the cell that is asked for is blank for this query alone
        blank = at(RowExplorer, query=query, mask=mask).frame_now()["strips"]["asked"]
        wanted = {"step": 6, "key": 2} if (query, mask) == ("awesome", "none") else None
        assert blank == wanted


@pytest.mark.parametrize("step", [1, 3, 7])
def test_the_figure_shows_the_steps_that_are_taken(step):
    ax = at(RowExplorer, step=step, mask="causal", query="is").figure().axes[0]
    cells = [text.get_text() for text in ax.texts]
    result = module.compute("is", "causal")
    rows = module.table_rows(result)
    wanted = [word for row in rows if row["step"] <= step for word in (*row["cells"], row["sum"])]
    names = [f"{i}  {name}" for i, name in enumerate(module.STEPS, 1)]
    assert [word for word in cells if word in names] == names
    names += [*module.TOKENS, "sum", ""]
    assert [word for word in cells if word not in names] == [word for word in wanted if word]
    assert ("−∞" in cells) == (step >= 3)
    frames = [patch.get_y() for patch in ax.patches if patch.get_linestyle() == "--"]
    wanted = [place for place, row in enumerate(rows) if row["sum"]]  # where sums are to come
    assert [int(y) for y in frames] == wanted == [*range(4, 10)]
    shades = [to_rgb(palette.to_hex(palette.shade(one.item()))) for one in result.weights[:2]]
    colours = [patch.get_facecolor()[:3] for patch in ax.patches]
    assert [colour for colour in colours if colour in shades] == shades * (step >= 6)
