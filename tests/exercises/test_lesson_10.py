"""The checks of lesson 10: what they accept, and what they say of answers that are not slips."""

import numpy as np
import torch

from attnlab.models.pretrained import load_layer
from tests.exercises.verdicts import accepts, names


def share(weights, n):
    return torch.stack([weights[:, row, 0] for row in range(1, n - 1)]).mean(dim=0) * n


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
WINE = ("he drank wine from a glass", "a", 2)
POURED = ("he poured wine into the glass", "the", 2)


def in_place(weights, n):
    weights *= n
    return weights[:, 1 : n - 1, 0].mean(dim=-1)


test_accepts = accepts({
    "check_sink_share": [lambda weights, n: share(weights, n).tolist()],
    "check_mended_ablation": [
        on_a_copy(lambda matrix, head: matrix[:, columns(head)].zero_()),
        put_back,
    ],
    "check_own_word": [
        lambda: ("Club", (*GOLF[:2], 9), [*DANCED]),
        lambda: ("club", (*GOLF[:2], torch.tensor(10)), (*DANCED[:2], np.int64(10))),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_third_word": {"was not shared out": lambda: 0.08 * 0.91 / 0.88},
    "check_sink_share": {
        "because padding gets no weight": lambda w, n: share(w, n) / n * w.shape[-1],
        "Take the mean over the n - 2 words": lambda w, n: w[:, 1 : n - 1, 0].sum(dim=-1) / n * n,
        "include padding or markers. Only": lambda w, n: w[:, : n - 1, 0].mean(dim=-1) * n,
        "n - 2 times too large": lambda w, n: w[:, 1 : n - 1, 0].sum(dim=-1) * n,
        "changes": in_place,
    },
    "check_mended_ablation": {
        "changes the layer that it is given": careless,
        "Heads are counted from 0": on_a_copy(
            lambda matrix, head: matrix[:, columns(head - 1)].zero_()
        ),
        "belong to columns": lambda layer, text, head: layer.read(text).output.index_fill(
            1, torch.arange(384)[columns(head)], 0
        ),
        "Return the output alone, as a tensor": lambda layer, text, head: layer.read(text),
    },
    "check_own_word": {
        "lesson's words": ("bank", ("she sat on the bank of the river", "river", 4), GOLF),
        ("In head 2", "of the askers give it more"): (
            ("club", ("the golf club", "golf", 2), DANCED)
        ),
        "“club” gives “danced” 0.00 uniform shares": ("club", GOLF, (*DANCED[:2], 2)),
        "half of them give it at least 8.00": ("glass", WINE, POURED),
        "“note” is your word itself": ("note", ("she wrote a note", "note", 1), GOLF),
        "Both examples have the same sentence": ("club", GOLF, (GOLF[0], "hit", 10)),
        "A marker is no clue": ("club", (GOLF[0], "[CLS]", 10), DANCED),
        "A head must be an int from 0 to 11.": ("club", (*GOLF[:2], True), DANCED),
        "A head must be an int": ("club", (*GOLF[:2], "10"), DANCED),
        "“vexing” must occur exactly once": ("club", GOLF, ("the vexing club", "vexing", 10)),
        "It should be a word and two examples": ("club", (3, "golf", 1), DANCED),
    },
})  # fmt: skip
