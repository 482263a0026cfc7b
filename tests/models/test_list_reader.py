"""The lists of lesson 11 and their reader, against plain Python and torch."""

import pytest
import torch
import torch.nn.functional as F

from attnlab.heads import merge_heads, split_heads
from attnlab.layers.positions import rotate
from attnlab.models.list_reader import NO_ANSWER, load_list_reader, make_lists, to_words


def read_from_the_start(words):
    """Return the answers, how many entries there are, and how far back the last is, in Python."""
    entries, rows = {}, []
    for place, word in enumerate(words):
        animal = word[:3]
        mine = entries.setdefault(animal, [])
        if not word.endswith("?"):
            mine.append((place, int(word[-1])))
            rows.append((NO_ANSWER, len(mine), 0))
        else:
            last, number = mine[-1] if mine else (-1, NO_ANSWER)
            rows.append((number, len(mine), place - last))
    return rows


def test_answers_are_those_of_reading_from_the_start():
    lists = make_lists(50, 23, generator=torch.Generator().manual_seed(0))
    questions = 0
    for tokens, *found in zip(*lists, strict=True):
        words = to_words(tokens)
        assert words[-1].endswith("?")
        questions += sum(word.endswith("?") for word in words[:-1])
        assert [*zip(*(row.tolist() for row in found), strict=True)] == read_from_the_start(words)
    assert 0.45 < questions / (50 * 22) < 0.55


def test_the_generator_is_used_and_nothing_else():
    torch.manual_seed(0)
    first, second = (make_lists(7, 5, generator=torch.Generator().manual_seed(1)) for _ in "12")
    assert torch.equal(first.tokens, second.tokens)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))
    torch.manual_seed(1)
    assert torch.equal(make_lists(7, 5).tokens, first.tokens)


def test_the_stored_reader_answers_with_its_rotation():
    reader, lists = load_list_reader(), make_lists(500, 16, generator=torch.Generator())
    layer, x = reader.attention, reader.embed(lists.tokens)
    query, key, value = (
        split_heads(one(x), 4) for one in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    heads = F.scaled_dot_product_attention(rotate(query), rotate(key), value, is_causal=True)
    logits = reader.read(layer.out_proj(merge_heads(heads)))
    asked = lists.answers != NO_ANSWER
    assert (logits.argmax(dim=-1) == lists.answers)[asked].float().mean() > 0.98


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: make_lists(0, 3), ValueError, "count must be .*1"),
        (lambda: make_lists(3, 2.5), TypeError, "length must be"),
        (
            lambda: to_words(make_lists(1, 3).tokens),
            ValueError,
            r"got \(1, 3, 16\).*tokens\[0\]",
        ),
    ],
)
def test_a_bad_call_says_what_is_wrong(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
