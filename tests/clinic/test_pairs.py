"""Split and merge: every mistake is named, and no right layout is accused."""

import pytest
import torch

from attnlab.clinic._results import Options, Results
from attnlab.clinic.pieces.builders import examine_mask_builder
from attnlab.clinic.pieces.pairs import examine_merge, examine_pair, examine_split
from attnlab.clinic.pieces.softmaxes import examine_softmax
from attnlab.heads import merge_heads, split_heads


def examined(target, **options) -> Results:
    results = Results()
    examine_pair(target, Options(**{"time_limit": 5.0, **options}), results)
    return results


def names(target, **options) -> list[str]:
    return [finding.name for finding in examined(target, **options).findings]


def split(x, num_heads):
    n, length, width = x.shape
    return x.view(n, length, num_heads, width // num_heads).transpose(1, 2)


def merge(x):
    n, heads, length, d = x.shape
    return x.transpose(1, 2).reshape(n, length, heads * d)


def split_uncut(x, num_heads):
    n, length, width = x.shape
    return x.view(n, num_heads, length, width // num_heads)


def merge_uncut(x):
    n, heads, length, d = x.shape
    return x.reshape(n, length, heads * d)


def split_cards(x, num_heads):
    n, length, width = x.shape
    return x.view(n, length, width // num_heads, num_heads).permute(0, 3, 1, 2)


def merge_cards(x):
    return x.permute(0, 2, 3, 1).flatten(2)


def split_folded(X, num_heads):
    return split(X, num_heads).flatten(0, 1)


def merge_folded(X, num_heads):
    return merge(X.unflatten(0, (-1, num_heads)))


def split_behind(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


def split_batch(x, num_heads):
    n, length, width = x.shape
    rows = x.view(n * length, num_heads, -1).transpose(0, 1)
    return rows.reshape(n, num_heads, length, width // num_heads)


def split_first_turned(x, num_heads):
    n, length, width = x.shape
    return x.transpose(1, 2).reshape(n, num_heads, length, width // num_heads)


def merge_view(x):
    n, heads, length, d = x.shape
    return x.transpose(1, 2).view(n, length, heads * d)


RIGHT = {
    "plain": (split, merge),
    "attnlab": (split_heads, merge_heads),
    "split alone": (split, None),
    "merge alone": (None, merge),
    "named d": (lambda x, head_dim: x.unflatten(-1, (-1, head_dim)).transpose(-2, -3), merge),
    "both sizes": (lambda x, H, d: x.unflatten(-1, (H, d)).transpose(1, 2), merge),
    "one sequence": (
        lambda x, h: x.view(x.shape[0], h, x.shape[1] // h).transpose(0, 1),
        lambda x: (lambda H, L, d: x.transpose(0, 1).reshape(L, H * d))(*x.shape),
    ),
    "eight heads inside": (lambda x: split(x, 8), merge),
    "eight heads inside, alone": (None, lambda x: merge(x.view(x.shape[0], 8, *x.shape[2:]))),
    "folded into the batch": (split_folded, merge_folded),
    "folded split": (split_folded, None),
    "folded merge": (None, merge_folded),
    "heads behind": (split_behind, lambda x: x.flatten(2)),
    "heads first": (lambda x, h: split(x, h).transpose(0, 1), lambda x: merge(x.transpose(0, 1))),
    "a list of heads": (lambda x, h: x.chunk(h, -1), lambda heads: torch.cat(heads, -1)),
    "einsum": (
        lambda x, h: torch.einsum("nlhd->nhld", x.unflatten(-1, (h, -1))),
        lambda x: torch.einsum("nhld->nlhd", x).flatten(2),
    ),
}
WRONG = {
    "split-without-transpose": [
        (split_uncut, None),
        (split_uncut, merge),
        (split_behind, None),
        (split_behind, merge),
        (split_first_turned, merge),
    ],
    "merge-without-transpose": [
        (None, merge_uncut),
        (split, merge_uncut),
        (split, lambda x: x.transpose(-1, -2).reshape(x.shape[0], x.shape[2], -1)),
    ],
    "split-and-merge": [(split_uncut, merge_uncut)],
    "heads-order": [
        (split_cards, None),
        (split_cards, merge_cards),
        (split, merge_cards),
        (lambda x, h: split(x, h).flip(1), lambda x: merge(x.flip(1))),
        (lambda x, h: split(x, h)[:, [1, 2, 0]], None),
        (lambda x, h: split(x, h).flip(-1), None),
    ],
    "batch-mixing": [(split_batch, merge), (lambda x, h: split(x - x.mean(0), h), None)],
    "position-mixing": [(lambda x, h: split(x.flip(1), h), None)],
    "head-mixing": [(lambda x, h: split(x, h) + split(x, h).mean(1, keepdim=True), None)],
    "heads-shared": [(lambda x, h: split(x, h)[:, :1].expand(-1, h, -1, -1), None)],
    "round-trip": [(split, merge_folded), (split_folded, merge)],
    "wrong-shape": [(lambda x, h: split(x, h).transpose(2, 3), None), (None, lambda x: x)],
    "contiguity": [(split, merge_view), (None, merge_view)],
    "dtype": [(lambda x, h: split(x.float(), h), None)],
    "detached": [(lambda x, h: split(x.detach(), h), merge)],
    "modifies-input": [(lambda x, h: split(x.mul_(2), h) / 2, None)],
    "random": [(lambda x, h: split(x + torch.randn_like(x), h), None)],
    "prints": [(lambda x, h: (print(x.shape), split(x, h))[1], merge)],
    "nan": [(lambda x, h: split(x, h) * torch.nan, None)],
    "not-done": [(lambda x, h: None, merge), (split, lambda x: None)],
    "wrong-type": [(lambda x, h: (one for one in x), None), (lambda x, h: "heads", merge)],
    "raises": [
        (lambda x, h: 1 / 0, None),
        (lambda: 1, None),
        (lambda x, *, p, q, r, s, u: x, None),
    ],
}


@pytest.mark.parametrize("pair", RIGHT.values(), ids=RIGHT)
def test_a_right_pair_is_not_accused(pair):
    results = examined(pair)
    assert results.findings == []
    assert len(results.properties) >= 4


CASES = [(name, pair) for name, pairs in WRONG.items() for pair in pairs]


@pytest.mark.parametrize(("name", "pair"), CASES)
def test_what_is_wrong_is_named_first(name, pair):
    assert names(pair)[:1] == [name]


def test_another_layout_is_a_note():
    assert "(N*H, L, d)" in examined((split_folded, merge_folded)).notes[0]
    assert "(N, L, H, d)" in examined((split_behind, lambda x: x.flatten(2))).notes[0]


def test_the_sentence_says_what_a_head_holds():
    finding = examined((split_uncut, merge_uncut)).findings[0]
    assert "tokens 0 and 1 only" in str(finding)
    assert finding.evidence.values[:, 0].tolist() == [0, 0, 0, 1, 1]


def test_sequence_first_is_a_note_unless_the_batch_was_said_to_be_first():
    def split_rows(x, num_heads):
        length, n, width = x.shape
        return x.reshape(length, n * num_heads, width // num_heads).transpose(0, 1)

    assert names((split_rows, None)) == []
    assert names((split_rows, None), batch_first=True) == ["batch-first"]


def test_an_adapter_says_how_to_call():
    def odd(heads, *, of):
        return split(of, heads)

    assert names((odd, None)) == ["raises"]
    assert names((odd, None), call=lambda function, x, heads: function(heads, of=x)) == []


def test_split_and_merge_alone():
    results = Results()
    examine_split(split_uncut, Options(), results)
    examine_merge(merge_uncut, Options(), results)
    found = [finding.name for finding in results.findings]
    assert found == ["split-without-transpose", "merge-without-transpose"]


def test_a_split_that_hangs_is_stopped():
    def hang(x, heads):
        while True:
            pass

    assert names((hang, merge), time_limit=0.1)[0] == "hangs"


class Stubborn(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_):
        raise RuntimeError("no")


@pytest.mark.parametrize("options", [Options(), Options("blocked", strict=True, num_heads=4)])
@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(1).expand(10**9),
        torch.zeros(5, 5).to_sparse(),
        torch.empty(5, 5, device="meta"),
        torch.zeros(2, 2, dtype=torch.complex64),
        torch.zeros(0),
        torch.zeros(()),
        torch.zeros(5, 5).as_subclass(Stubborn),
        (torch.zeros(2), torch.zeros(3)),
    ],
    ids=["huge", "sparse", "meta", "complex", "empty", "scalar", "subclass", "uneven"],
)
@pytest.mark.parametrize(
    "examine", [examine_split, examine_merge, examine_mask_builder, examine_softmax]
)
def test_odd_tensors_are_answered_in_words(examine, value, options):
    results = Results()
    examine(lambda x, y=3: value, options, results)
    assert results.findings
