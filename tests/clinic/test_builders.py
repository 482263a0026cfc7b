"""Functions that build masks: polarity, edges, shapes and dtypes."""

from functools import partial

import pytest
import torch

from attnlab import masks
from attnlab.clinic._results import Options, Results
from attnlab.clinic.pieces.builders import examine_mask_builder

INF = torch.inf


def examined(function, **options) -> Results:
    results = Results()
    examine_mask_builder(function, Options(**{"time_limit": 5.0, **options}), results)
    return results


def names(function, **options) -> list[str]:
    return [finding.name for finding in examined(function, **options).findings]


def tril(L, S=None):
    return torch.ones(L, S or L, dtype=torch.bool).tril()


def causal_square(L, S):
    return tril(L)


def causal_positional(L, S):
    return tril(L, S)


def causal_lower_right(q_len, k_len):
    return torch.ones(q_len, k_len).tril(k_len - q_len).bool()


def subsequent_mask(size):
    return torch.triu(torch.ones(1, size, size), diagonal=1).type(torch.uint8) == 0


def real(lengths, max_len):
    return torch.arange(max_len) < torch.as_tensor(lengths)[:, None]


def pad_right(lengths, max_len):
    return real(lengths, max_len)[:, None, None, :]


def pad_only_lengths(lengths):
    mask = torch.zeros(len(lengths), max(lengths), dtype=torch.bool)
    for row, length in zip(mask, lengths, strict=True):
        row[:length] = True
    return mask


def pad_from_list(lengths: list):
    return torch.tensor([[j < n for j in range(max(lengths))] for n in list(lengths)])


def src_mask(src, pad_idx):
    return (src != pad_idx)[:, None, None]


def trg_mask(trg, pad_idx):
    return src_mask(trg, pad_idx) & tril(trg.shape[1])


def both_sides(ids, pad=0):
    return (ids != pad)[:, :, None] & (ids != pad)[:, None]


def offsets(L):
    return torch.arange(L)[:, None] - torch.arange(L)


def band(L, window):
    return offsets(L).abs() < window


def back(L, window):
    return (offsets(L) >= 0) & (offsets(L) < window)


def added(value):
    return lambda L: torch.zeros(L, L).masked_fill(~tril(L), value)


RIGHT = [
    tril,
    causal_positional,
    causal_lower_right,
    subsequent_mask,
    lambda L: tril(L).int(),
    added(-INF),
    added(-1e9),
    lambda L: torch.full((L, L), -INF).triu(1),
    lambda L: tril(L)[None, None].expand(2, 3, L, L),
    lambda x: tril(x.shape[1]),
    lambda scores: tril(*scores.shape[-2:]),
    lambda L, device: tril(L).to(device),
    pad_right,
    real,
    pad_only_lengths,
    src_mask,
    trg_mask,
    both_sides,
    lambda tokens: tokens != 0,
    band,
    back,
    masks.causal_mask,
    masks.sequence_mask,
    masks.sliding_window_mask,
    partial(masks.causal_mask, align="lower_right"),
    torch.nn.Transformer.generate_square_subsequent_mask,
]


def causal_that_leaks(L):
    mask = tril(L)
    mask[0, 3] = True
    return mask


def lengths_changed(lengths):
    mask = pad_only_lengths(lengths)
    lengths += 1
    return mask


WRONG = {
    "mask-inverted": [
        lambda L: ~tril(L),
        lambda L: torch.ones(L, L).triu(1),
        lambda L: torch.zeros(L, L).masked_fill(tril(L), -INF),
        lambda lengths, max_len: ~real(lengths, max_len),
        lambda ids, pad_id: ids == pad_id,
        lambda L, window: ~band(L, window),
    ],
    "causal-flipped": [lambda L: tril(L).T, lambda L, window: back(L, window).T],
    "causal-off-by-one": [
        lambda L: torch.ones(L, L).tril(-1).bool(),
        lambda L, S: torch.ones(L, S).tril(1).bool(),
        lambda L, window: (offsets(L) >= -1) & (offsets(L) < window),
    ],
    "causal-missing": [lambda L: torch.ones(L, L).bool()],
    "causal-leak": [causal_that_leaks],
    "square-only": [causal_square],
    "length-off-by-one": [
        lambda lengths, max_len: torch.arange(max_len) <= lengths[:, None],
        lambda lengths, max_len: torch.arange(max_len) < lengths[:, None] - 1,
        lambda lengths, max_len: torch.arange(1, max_len + 1) < lengths[:, None],
    ],
    "mask-transposed": [lambda lengths, max_len: real(lengths, max_len).T],
    "mask-queries": [lambda lengths, max_len: real(lengths, max_len)[:, :, None]],
    "batch-mixing": [lambda lengths, max_len: real(lengths, max_len).flip(0)],
    "mask-ignored": [
        lambda lengths, max_len: torch.ones(len(lengths), max_len).bool(),
        lambda L, window: band(L, 5),
    ],
    "mask-dtype": [
        lambda L: offsets(L).float(),
    ],
    "mask-finite": [added(-10.0), added(-1.0)],
    "nan": [lambda L: (1 - tril(L).float()) * -INF],
    "wrong-shape": [lambda L: tril(5), lambda L: tril(L)[0]],
    "random": [lambda L: torch.rand(L, L) > 0.5],
    "prints": [lambda L: (print(L), tril(L))[1]],
    "modifies-input": [lengths_changed],
    "not-done": [lambda L: None],
    "wrong-type": [lambda L: [[True]], lambda L: "mask", lambda L: (i for i in range(L))],
    "raises": [lambda L: 1 / 0, lambda a, b, c, d, e: a],
}
CASES = [(name, function) for name, functions in WRONG.items() for function in functions]


@pytest.mark.parametrize("function", RIGHT)
def test_a_right_builder_is_not_accused(function):
    results = examined(function)
    assert results.findings == []
    assert len(results.properties) >= 3


@pytest.mark.parametrize(("name", "function"), CASES)
def test_what_is_wrong_is_named_first(name, function):
    assert names(function)[:1] == [name]


def test_true_may_be_said_to_mean_blocked():
    assert names(lambda L: ~tril(L), mask="blocked") == []
    assert names(tril, mask="blocked") == ["mask-inverted"]


def test_an_inverted_mask_names_the_function_of_torch_that_wants_it():
    assert "nn.MultiheadAttention" in str(examined(lambda L: ~tril(L)).findings[0])


def test_numbers_are_a_note_and_a_corner_is_a_note():
    assert "-1e+09" in examined(added(-1e9)).notes[0]
    assert "int32" in examined(lambda L: tril(L).int()).notes[0]
    assert "lower right" in " ".join(examined(causal_lower_right).notes)
    assert "upper left" in " ".join(examined(causal_positional).notes)


def test_a_builder_that_takes_lists_only():
    assert names(pad_from_list) == []


def test_an_adapter_says_how_to_call():
    def causal(*, config):
        return tril(config["length"])

    assert names(causal) == ["raises"]
    assert names(causal, call=lambda build, L: build(config={"length": L})) == []


def test_zeros_and_ones_as_floats_are_a_note_and_a_finding_only_if_strict():
    results = Results()
    examine_mask_builder(lambda L: torch.ones(L, L).tril(), Options(), results)
    assert results.findings == []
    assert any("0 and 1 as float32" in note for note in results.notes)
    results = Results()
    examine_mask_builder(lambda L: torch.ones(L, L).tril(), Options(strict=True), results)
    assert [finding.name for finding in results.findings] == ["mask-dtype"]
