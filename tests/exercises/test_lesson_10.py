"""The checks of lesson 10: what they accept, and what they say of answers that are not slips."""

import torch

from attnlab.exercises import (
    check_mended_ablation,
    check_own_word,
    check_sink_share,
    check_third_word,
)
from attnlab.pretrained import load_layer
from tests.exercises.verdicts import accepted, accepts, names, refused


def share(weights):
    length = weights.shape[-1]
    return torch.stack([weights[:, row, 0] for row in range(1, length - 1)]).mean(dim=0) * length


# --- a layer without a head -----------------------------------------------------------------------


def columns(head):
    return slice(32 * head, 32 * (head + 1))


def on_a_copy(change):
    """Return an answer that changes the last matrix of a copy."""

    def answer(layer, text, head):
        copy = load_layer()
        change(copy.attention.out_proj.weight, head)
        return copy.read(text).output

    return answer


def careless(layer, text, head):
    layer.attention.out_proj.weight[:, columns(head)] = 0
    return layer.read(text).output


def put_back(layer, text, head):
    kept = layer.attention.out_proj.weight.clone()
    output = careless(layer, text, head)
    layer.attention.out_proj.weight.copy_(kept)
    return output


# --- an ambiguous word ----------------------------------------------------------------------------

GOLF = ("he hit the golf ball with a club", "golf", 10)
DANCED = ("they danced in the club", "danced", 10)
IN_HEAD_9 = (*GOLF[:2], 9)

test_accepts = accepts({
    check_third_word: [0.06],
    check_sink_share: [lambda weights: share(weights).tolist()],
    check_mended_ablation: [
        on_a_copy(lambda matrix, head: matrix[:, columns(head)].zero_()),
        put_back,
    ],
    check_own_word: [lambda: ("Club", IN_HEAD_9, [*DANCED])],
})  # fmt: skip

test_names_the_mistake = names({
    check_sink_share: {
        "include the row of a marker": lambda w: w[:, 1:, 0].mean(dim=-1) * w.shape[-1],
        "Return 12 numbers, one for each head": lambda weights: share(weights).mean()},
    check_mended_ablation: {
        "changes the layer that it is given (attention.out_proj.weight)": careless,
        "lacks head 3 instead. Heads are counted from 0": (
            on_a_copy(lambda matrix, head: matrix[:, columns(head - 1)].zero_())
        ),
        "Which 32 columns": on_a_copy(lambda matrix, head: matrix.zero_()),
        "Return the output alone, as a tensor": lambda layer, text, head: layer.read(text),
    },
    check_own_word: {
        "lesson's words": ("bank", ("she sat on the bank of the river", "river", 4), GOLF),
        "Where is the other meaning": ("club", GOLF, GOLF),
        ("In head 2, 2,961 of 5,000 other words give “golf” more", "fewer than 100"): (
            ("club", ("the golf club", "golf", 2), DANCED)
        ),
        "“club” gives “danced” 0.00 uniform shares": ("club", GOLF, (*DANCED[:2], 2)),
        "“club” must occur once": ("club", GOLF, ("a club is a club, we danced", "danced", 10)),
        "“vexing” must occur once": ("club", GOLF, ("the vexing club", "vexing", 10)),
        "cannot read": lambda: ("club", GOLF, ("the club \udfff danced", "danced", 10)),
        "from 0 to 11": ("club", (*GOLF[:2], 12), DANCED),
        "must be strings": ("club", (3, "golf", 1), DANCED),
        "It should be a word and two examples": ("club", GOLF),
    },
})  # fmt: skip


def test_the_ratio_stays_in_the_layer_too():
    layer = load_layer()
    rows = [layer.read(f"the cat saw the dog {word}").weights[:, 2] for word in ("sit", "run")]
    ratios = [row[:, 3] / row[:, 5] for row in rows]  # 2 asks, 3 and 5 are compared
    assert not torch.allclose(rows[0][:, 3], rows[1][:, 3], rtol=1e-3)
    torch.testing.assert_close(*ratios, rtol=1e-3, atol=0)


def test_wrong_shares_are_shown_by_head():
    evidence = refused(check_sink_share, lambda weights: share(weights) + 0.01).evidence
    assert evidence.columns[0] == "head 0"


def test_one_head_for_both_meanings_is_a_remark():
    verdict = accepted(check_own_word, ("club", GOLF, DANCED))
    assert verdict.remarks == ("The same head passes the test in both sentences.",)
    assert accepted(check_own_word, ("club", IN_HEAD_9, DANCED)).remarks == ()
