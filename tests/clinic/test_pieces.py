"""Parts of attention by themselves: head splits and merges, mask builders, softmaxes.

Every mistake is named, and no correct layout, convention or style is accused.
"""

from functools import partial

import pytest
import torch
from torch.nn import functional

from attnlab import masks
from attnlab.attention import attention_weights
from attnlab.clinic._diagnose import KINDS
from attnlab.clinic._results import Options, Results
from attnlab.clinic.broken import heads
from attnlab.clinic.broken._templates import Steps
from attnlab.clinic.pieces.builders import examine_mask_builder
from attnlab.clinic.pieces.pairs import examine_pair
from attnlab.clinic.pieces.softmaxes import examine_softmax
from attnlab.heads import merge_heads, split_heads

INF = torch.inf
EXAMINE = {"pair": examine_pair, "builder": examine_mask_builder, "softmax": examine_softmax}
FEWEST = {"pair": 4, "builder": 3, "softmax": 3}  # properties that hold


def examined(kind, target, **options) -> Results:
    results = Results()
    EXAMINE[kind](target, Options(**{"time_limit": 5.0, **options}), results)
    return results


def names(kind, target, **options) -> list[str]:
    return [finding.name for finding in examined(kind, target, **options).findings]


# --- pairs (split, merge) -------------------------------------------------------------------------

split, merge = Steps().split, Steps().merge
split_uncut, merge_uncut = partial(heads.split_by_view, None), partial(heads.merge_by_reshape, None)
split_interleaved, split_behind = heads.HeadsInterleaved().split, heads.HeadsBehindTokens().split


def split_folded(X, num_heads):
    return split(X, num_heads).flatten(0, 1)


def merge_folded(X, num_heads):
    return merge(X.unflatten(0, (-1, num_heads)))


def split_batch(x, num_heads):
    n, length, width = x.shape
    rows = x.view(n * length, num_heads, -1).transpose(0, 1)
    return rows.reshape(n, num_heads, length, width // num_heads)


def split_first_turned(x, num_heads):
    n, length, width = x.shape
    return x.transpose(1, 2).reshape(n, num_heads, length, width // num_heads)


RIGHT = {
    "pair": [
        (split_heads, merge_heads),
        (split, None),
        (None, merge),
        (lambda x, head_dim: x.unflatten(-1, (-1, head_dim)).transpose(-2, -3), merge),
        (lambda x, H, d: x.unflatten(-1, (H, d)).transpose(1, 2), merge),
        (
            lambda x, h: x.view(x.shape[0], h, x.shape[1] // h).transpose(0, 1),
            lambda x: (lambda H, L, d: x.transpose(0, 1).reshape(L, H * d))(*x.shape),
        ),
        (lambda x: split(x, 8), merge),
        (split_folded, merge_folded),
        (split_folded, None),
        (None, merge_folded),
        (split_behind, lambda x: x.flatten(2)),
        (lambda x, h: split(x, h).transpose(0, 1), lambda x: merge(x.transpose(0, 1))),
        (lambda x, h: x.chunk(h, -1), lambda heads: torch.cat(heads, -1)),
        (
            lambda x, h: torch.einsum("nlhd->nhld", x.unflatten(-1, (h, -1))),
            lambda x: torch.einsum("nhld->nlhd", x).flatten(2),
        ),
    ]
}
WRONG = {
    "pair": {
        "split-without-transpose": [
            (split_uncut, None),
            (split_behind, None),
            (split_first_turned, merge),
        ],
        "merge-without-transpose": [
            (None, merge_uncut),
            (split, lambda x: x.transpose(-1, -2).reshape(x.shape[0], x.shape[2], -1)),
        ],
        "heads-order": [
            (split_interleaved, None),
            (lambda x, h: split(x, h)[:, [1, 2, 0]], None),
            (lambda x, h: split(x, h).flip(-1), None),
            (lambda x, h: split(x - x.mean(0), h), None),
        ],
        "batch-mixing": [(split_batch, merge)],
        "position-mixing": [(lambda x, h: split(x.flip(1), h), None)],
        "head-mixing": [
            (
                lambda x, h: torch.cat([split(x, h)[:, :, :1], split(x, h)[:, :, 1:].flip(1)], 2),
                None,
            )
        ],
        "heads-shared": [(lambda x, h: split(x, h)[:, :1].expand(-1, h, -1, -1), None)],
        "round-trip": [(split, merge_folded), (split_folded, merge)],
        "wrong-shape": [(lambda x, h: split(x, h).transpose(2, 3), None), (None, lambda x: x)],
        "dtype": [(lambda x, h: split(x.float(), h), None)],
        "detached": [(lambda x, h: split(x.detach(), h), merge)],
        "modifies-input": [(lambda x, h: split(x.mul_(2), h) / 2, None)],
        "random": [(lambda x, h: split(x + torch.randn_like(x), h), None)],
        "prints": [(lambda x, h: (print(x.shape), split(x, h))[1], merge)],
        "nan": [(lambda x, h: split(x, h) * torch.nan, None)],
        "not-done": [(lambda x, h: None, merge), (split, lambda x: None)],
        "wrong-type": [(lambda x, h: (one for one in x), None), (lambda x, h: "heads", merge)],
        "raises": [(lambda x, h: 1 / 0, None), (split, lambda x: 1 / 0)],
    }
}


# --- mask builders --------------------------------------------------------------------------------


def tril(L, S=None):
    return torch.ones(L, S or L, dtype=torch.bool).tril()


def causal_positional(L, S):
    return tril(L, S)


def causal_lower_right(q_len, k_len):
    return torch.ones(q_len, k_len).tril(k_len - q_len).bool()


def subsequent_mask(size):
    return torch.triu(torch.ones(1, size, size), diagonal=1).type(torch.uint8) == 0


def real(lengths, max_len):
    return torch.arange(max_len) < torch.as_tensor(lengths)[:, None]


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


RIGHT["builder"] = [
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
    lambda lengths, max_len: real(lengths, max_len)[:, None, None, :],
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


WRONG["builder"] = {
    "mask-inverted": [
        lambda L: torch.zeros(L, L).masked_fill(tril(L), -INF),
        lambda ids, pad_id: ids == pad_id,
        lambda L, window: ~band(L, window),
    ],
    "causal-flipped": [lambda L, window: back(L, window).T],
    "causal-off-by-one": [lambda L, window: (offsets(L) >= -1) & (offsets(L) < window)],
    "causal-missing": [lambda L: torch.ones(L, L).bool()],
    "causal-leak": [causal_that_leaks],
    "mask-queries": [lambda lengths, max_len: real(lengths, max_len)[:, :, None]],
    "padding-leak": [lambda lengths, max_len: real(lengths, max_len).flip(0)],
    "mask-ignored": [
        lambda lengths, max_len: torch.ones(len(lengths), max_len).bool(),
    ],
    "length-off-by-one": [lambda lengths, max_len: real(lengths - 1, max_len)],
    "mask-finite": [added(-10.0), added(-1.0)],
    "wrong-shape": [lambda L: tril(5), lambda L: tril(L)[0]],
    "random": [lambda L: torch.rand(L, L) > 0.5],
    "prints": [lambda L: (print(L), tril(L))[1]],
    "modifies-input": [lengths_changed],
    "not-done": [lambda L: None],
    "wrong-type": [lambda L: [[True]], lambda L: "mask", lambda L: (i for i in range(L))],
    "raises": [lambda L: 1 / 0],
}


# --- softmaxes ------------------------------------------------------------------------------------


def by_hand(x, shift=lambda x: x.amax(-1, keepdim=True)):
    e = (x - shift(x)).exp()
    return e / e.sum(-1, keepdim=True)


def without_maximum(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


def one_maximum(x):
    return by_hand(x, torch.max)


def masked(scores, mask):
    return scores.masked_fill(~mask, -INF).softmax(-1)


def filled(value):
    return lambda scores, mask: scores.masked_fill(~mask, value).softmax(-1)


def softmax_by_lengths(X, valid_lens, extra=0):
    place = torch.arange(X.shape[-1], device=X.device)
    blocked = place >= valid_lens[:, None, None] + extra
    return X.masked_fill(blocked, -1e6).softmax(-1)


def in_place(x):
    x -= x.amax(-1, keepdim=True)
    return x.softmax(-1)


def masked_in_place(scores, mask):
    scores[~mask.expand_as(scores)] = -1e9
    return scores.softmax(-1)


RIGHT["softmax"] = [
    functional.softmax,
    torch.nn.Softmax(-1),
    lambda x, axis: x.softmax(axis),
    without_maximum,
    one_maximum,
    lambda x: by_hand(x, lambda x: x.max().item()),
    lambda x: x.exp() / (x.exp().sum(-1, keepdim=True) + 1e-9),
    lambda scores: torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True)),
    lambda x: x.softmax(2),
    masked,
    lambda scores, mask=None: scores.softmax(-1) if mask is None else masked(scores, mask),
    lambda scores, mask: scores.exp() * mask / (scores.exp() * mask).sum(-1, keepdim=True),
    lambda scores, mask: masked(scores, mask).nan_to_num(0),
    lambda scores, keep: masked(scores, keep),
    lambda scores, attn_mask: (scores + torch.where(attn_mask.bool(), 0, -INF)).softmax(-1),
    attention_weights,
    softmax_by_lengths,
]
WRONG["softmax"] = {
    "softmax-axis": [
        lambda x: x.softmax(1),
        lambda x: x.flatten(-2).softmax(-1).view_as(x),
        lambda x, dim: x.softmax(-1),
        lambda scores, mask: scores.masked_fill(~mask, -1e9).softmax(-2),
    ],
    "not-normalised": [
        torch.sigmoid,
        lambda x: x,
        lambda x: (x - x.amax(-1, keepdim=True)).exp() / x.exp().sum(-1, keepdim=True),
        lambda x: x.exp() / (x.exp().sum(-1, keepdim=True) + 1),
        lambda x: x.log_softmax(-1),
        lambda x: x / x.sum(-1, keepdim=True),
        lambda scores, mask: scores.exp() * mask,
    ],
    "hard": [lambda x: functional.one_hot(x.argmax(-1), x.shape[-1]).float()],
    "scale-other": [lambda x: (-x).softmax(-1), lambda x: (x * 0.5).softmax(-1)],
    "position-mixing": [lambda x: x.softmax(-1).sort(-1).values],
    "wrong-shape": [lambda x: x.softmax(-1).mT, lambda x: x.softmax(-1).sum(-1)],
    "modifies-input": [in_place, masked_in_place],
    "detached": [
        lambda x: x.detach().softmax(-1),
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True).detach(),
    ],
    "random": [lambda x: functional.dropout(x.softmax(-1), 0.5)],
    "prints": [lambda x: (print("hello"), x.softmax(-1))[1]],
    "nan": [lambda x: x * torch.nan],
    "not-done": [lambda x: None],
    "wrong-type": [lambda x: (row for row in x), lambda x: 1.0],
    "raises": [lambda x: 1 / 0],
    "mask-inverted": [
        lambda scores, mask: masked(scores, ~mask),
    ],
    "mask-ignored": [lambda scores, mask: scores.softmax(-1)],
    "mask-added": [lambda scores, mask: (scores + mask).softmax(-1)],
    "mask-multiplied": [
        lambda scores, mask: (scores * mask).softmax(-1),
        lambda scores, mask: (scores * ~mask).softmax(-1),
        filled(0),
        filled(1e-9),
    ],
    "mask-after-softmax": [lambda scores, mask: scores.softmax(-1) * mask],
    "mask-finite": [
        filled(-10),
        lambda scores, mask: (scores - 5 * (1 - mask.float())).softmax(-1),
    ],
    "mask-leak": [lambda X, lengths: softmax_by_lengths(X, lengths, 1)],
    "wrong-source": [lambda X, lengths: softmax_by_lengths(X, lengths, -1)],
}


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "target"), [(k, t) for k, many in RIGHT.items() for t in many])
def test_what_is_correct_is_not_accused(kind, target):
    results = examined(kind, target)
    assert results.findings == []
    assert len(results.properties) >= FEWEST[kind]


@pytest.mark.parametrize(
    ("kind", "cause", "target"),
    [(k, c, t) for k, causes in WRONG.items() for c, many in causes.items() for t in many],
)
def test_what_is_wrong_is_named_first(kind, cause, target):
    assert names(kind, target)[:1] == [cause]


def test_another_layout_is_a_note():
    assert "(N*H, L, d)" in examined("pair", (split_folded, merge_folded)).notes[0]
    assert "(N, L, H, d)" in examined("pair", (split_behind, lambda x: x.flatten(2))).notes[0]


def test_the_sentence_says_what_a_head_holds():
    finding = examined("pair", (split_uncut, merge_uncut)).findings[0]
    assert "tokens 0 and 1 only" in str(finding)
    assert finding.evidence.values[:, 0].tolist() == [0, 0, 0, 1, 1]


def test_sequence_first_is_a_note():
    def split_rows(x, num_heads):
        length, n, width = x.shape
        return x.reshape(length, n * num_heads, width // num_heads).transpose(0, 1)

    results = examined("pair", (split_rows, None))
    assert results.findings == []
    assert "(L, N, D)" in results.notes[0]


def test_a_merge_that_knows_its_sizes_itself_is_to_be_told_of_them():
    def merge_eight(x):
        return merge(x.view(x.shape[0], 8, *x.shape[2:]))

    asked = examined("pair", (None, merge_eight))
    assert asked.findings == []
    assert "num_heads=" in asked.gap.remedy
    told = examined("pair", (None, merge_eight), num_heads=8)
    assert (told.findings, told.gap) == ([], None)
    assert examined("pair", (lambda x: split(x, 8), merge_eight)).gap is None


@pytest.mark.parametrize("kind", ["pair", "softmax"])
def test_a_function_of_nothing_is_not_examined(kind):
    results = examined(kind, (lambda: 1, None) if kind == "pair" else lambda: 1)
    assert results.findings == []
    assert "takes 0 positional arguments" in results.gap.why


def test_a_split_that_hangs_is_stopped():
    def hang(x, heads):
        while True:
            pass

    assert names("pair", (hang, merge), time_limit=0.1)[0] == "hangs"


class Refusing(torch.Tensor):
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
        torch.zeros(5, 5).as_subclass(Refusing),
        (torch.zeros(2), torch.zeros(3)),
    ],
    ids=["huge", "sparse", "meta", "complex", "empty", "scalar", "subclass", "uneven"],
)
@pytest.mark.parametrize("kind", ["split", "merge", "mask", "softmax"])
def test_odd_tensors_are_answered_in_words(kind, value, options):
    results = Results()
    KINDS[kind][1](lambda x, y=3: value, options, results)
    assert results.findings


@pytest.mark.parametrize(
    ("kind", "right", "inverted"),
    [
        ("builder", tril, lambda L: ~tril(L)),
        ("softmax", masked, lambda scores, mask: masked(scores, ~mask)),
    ],
)
def test_true_may_be_said_to_mean_blocked(kind, right, inverted):
    assert names(kind, inverted, mask="blocked") == []
    assert names(kind, right, mask="blocked") == ["mask-inverted"]


def test_an_inverted_mask_names_the_function_of_torch_that_wants_it():
    assert "nn.MultiheadAttention" in str(examined("builder", lambda L: ~tril(L)).findings[0])


def test_numbers_are_a_note_and_a_corner_is_a_note():
    assert "-1e+09" in examined("builder", added(-1e9)).notes[0]
    assert "int32" in examined("builder", lambda L: tril(L).int()).notes[0]
    assert "lower right" in " ".join(examined("builder", causal_lower_right).notes)
    assert "upper left" in " ".join(examined("builder", causal_positional).notes)


def test_a_builder_that_takes_lists_only():
    assert names("builder", pad_from_list) == []


def odd_split(heads, *, of):
    return split(of, heads)


def odd_causal(*, config):
    return tril(config["length"])


@pytest.mark.parametrize(
    ("kind", "target", "call"),
    [
        ("pair", (odd_split, None), lambda function, x, heads: function(heads, of=x)),
        ("builder", odd_causal, lambda build, L: build(config={"length": L})),
    ],
)
def test_an_adapter_says_how_to_call(kind, target, call):
    asked = examined(kind, target)
    assert asked.findings == []
    assert "call=" in asked.gap.remedy
    told = examined(kind, target, call=call)
    assert (told.findings, told.gap) == ([], None)


def test_zeros_and_ones_as_floats_are_a_note():
    results = examined("builder", lambda L: torch.ones(L, L).tril())
    assert results.findings == []
    assert any("0 and 1 as float32" in note for note in results.notes)


def test_overflow_is_a_note_unless_strict():
    assert "overflows" in " ".join(examined("softmax", without_maximum).notes)
    assert names("softmax", without_maximum, strict=True) == ["nan"]
    assert "own maximum" in " ".join(examined("softmax", one_maximum).notes)
    assert names("softmax", one_maximum, strict=True) == ["underflow"]
    assert names("softmax", by_hand, strict=True) == []


def test_a_row_without_keys_is_a_note_unless_strict():
    assert examined("softmax", masked).notes == ["A row with no allowed key gives NaN."]
    assert names("softmax", masked, strict=True) == ["blocked-row"]
    assert names("softmax", attention_weights, strict=True) == []


def test_the_evidence_shows_the_sums():
    finding = examined("softmax", lambda x: x.softmax(-2)).findings[0]
    sums = finding.evidence.values[:, -1]
    assert finding.evidence.columns[-1] == "sum"
    assert torch.allclose(sums, finding.evidence.values[:, :-1].sum(-1))
    assert "runs over the queries" in str(finding)


def test_a_dimension_that_is_counted_from_the_front_is_a_note():
    assert "from the front" in examined("softmax", lambda x: x.softmax(2)).notes[0]


def test_the_caller_may_say_that_a_mask_is_added():
    assert names("softmax", lambda scores, mask: (scores + mask).softmax(-1), mask="additive") == []


# --- what is asked for and not guessed ------------------------------------------------------------


def distances(L):
    return torch.arange(L)[:, None] - torch.arange(L)


def prefix_lm_mask(seq_len, prefix_len):
    return tril(seq_len) | (torch.arange(seq_len) < prefix_len)


def chunked_mask(seq_len, chunk_size):
    return torch.arange(seq_len)[:, None] // chunk_size == torch.arange(seq_len) // chunk_size


def global_mask(n, num_global):
    first = torch.arange(n) < num_global
    return first | first[:, None] | torch.eye(n, dtype=torch.bool)


def block_causal_mask(L, block):
    return torch.arange(L)[:, None] // block >= torch.arange(L) // block


def document_mask(doc_ids):
    return doc_ids[..., :, None] == doc_ids[..., None, :]


def mask_for_documents(ids):
    return ids[..., :, None] == ids[..., None, :]


def alibi_mask(n, num_heads):
    return -distances(n).abs() * 2.0 ** -torch.arange(1, num_heads + 1)[:, None, None]


def attention_mask_for_cache(new, past):
    return torch.ones(new, new + past).tril(past).bool()


def dilated_mask(L, window, dilation):
    apart = distances(L)
    return (apart >= 0) & (apart < window * dilation) & (apart % dilation == 0)


def strided_mask(n):
    return (distances(n) >= 0) & (distances(n) % 3 == 0)


def everything_mask(L):
    return torch.ones(L, L, dtype=torch.bool)


def wide_band_mask(L, bandwidth):
    return distances(L).abs() <= 2 * bandwidth


def pair_mask(seq_q, seq_k):
    return (seq_k != 0)[:, None].expand(-1, seq_q.shape[1], -1)


ASKED = [prefix_lm_mask, chunked_mask, global_mask, block_causal_mask, document_mask,
         mask_for_documents, alibi_mask, attention_mask_for_cache, dilated_mask, strided_mask,
         everything_mask, wide_band_mask, pair_mask, lambda a, b, c: a, lambda L: distances(L),
         ]  # fmt: skip


@pytest.mark.parametrize("builder", ASKED, ids=lambda builder: builder.__name__)
def test_a_mask_of_another_kind_is_not_examined(builder):
    results = examined("builder", builder)
    assert results.findings == []
    assert results.gap is not None
    assert results.gap.remedy


def test_the_unknown_argument_is_named_with_an_adapter():
    gap = examined("builder", prefix_lm_mask).gap
    assert "prefix_len" in gap.why
    assert "call=lambda f, seq_len: f(seq_len, prefix_len=...)" in gap.remedy
    told = examined("builder", prefix_lm_mask, call=lambda build, seq_len: build(seq_len, 2))
    assert told.findings == []


def key_padding_mask(lengths, max_len):
    return ~real(lengths, max_len)


def hidden_tokens(ids, pad_id):
    """Return a mask that is True where the token is padding."""
    return ids == pad_id


def seen_tokens(ids, pad_id):
    """Return a mask: 1 for a token, and 0 hides padding."""
    return ids != pad_id


def test_words_about_blocking_do_not_turn_a_mask_around():
    results = examined("builder", seen_tokens)
    assert results.findings == []
    assert results.gap is None


def image_window_mask(height, width, window):
    return torch.ones(height * width, height * width, dtype=torch.bool)


def test_an_image_is_no_sequence():
    assert examined("builder", image_window_mask).findings == []


@pytest.mark.parametrize("builder", [key_padding_mask, hidden_tokens])
def test_a_builder_may_say_itself_that_true_means_blocked(builder):
    results = examined("builder", builder)
    assert results.findings == []
    assert any(note.key == "convention" for note in results.notes)


def test_the_option_that_settles_a_convention_is_named():
    assert 'mask="blocked"' in examined("builder", lambda L: ~tril(L)).findings[0].fix
    assert 'mask="blocked"' in examined("softmax", lambda s, mask: masked(s, ~mask)).findings[0].fix
    added = examined("softmax", lambda s, mask: (s + mask).softmax(-1))
    assert 'mask="additive"' in added.findings[0].fix


def test_a_temperature_is_not_taken_for_a_mask():
    results = examined("softmax", lambda scores, temperature: (scores / temperature).softmax(-1))
    assert results.findings == []
    assert "temperature" in results.gap.why


def test_a_merge_of_one_sequence_is_examined_as_well():
    flat = lambda x: x.transpose(0, 1).flatten(1)  # noqa: E731
    cut = lambda x, h: x.unflatten(-1, (h, -1)).transpose(0, 1)  # noqa: E731
    assert any(said.key == "round-trip" for said in examined("pair", (cut, flat)).properties)


def hiding(scores, mask):
    """Return weights; True in the mask means hidden."""
    return masked(scores, ~mask)


def test_a_softmax_may_say_itself_that_true_means_blocked():
    results = examined("softmax", hiding)
    assert results.findings == []
    assert any("True means blocked" in note for note in results.notes)


def test_lengths_that_are_one_off_are_mended_as_lengths():
    for extra in (1, -1):
        results = examined("softmax", lambda X, lengths, e=extra: softmax_by_lengths(X, lengths, e))
        assert "a length counts real tokens" in results.findings[0].fix
