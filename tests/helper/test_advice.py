"""Following the advice of a message works: the code that it names gives the right mask."""

import matplotlib.pyplot as plt
import pytest
import torch
import torch.nn.functional as F

from attnlab import (
    causal_mask,
    combine_masks,
    from_hf_attention_mask,
    from_key_padding_mask,
    scaled_dot_product_attention,
    sequence_mask,
)
from attnlab.layers.modules import MultiHeadAttention
from attnlab.plotting import plot_attention, plot_heads

N, H, L, E = 3, 2, 5, 7
LENGTHS = torch.tensor([5, 3, 2])
WORDS = sequence_mask(LENGTHS)  # (N, L)
IDS = torch.tensor([[1, 1, 2, 2, 2], [1, 2, 2, 2, 3], [1, 1, 1, 1, 2]])  # numbers of packed texts
POSITIONS = torch.tensor([[0, 1, 0, 1, 2], [0, 0, 1, 2, 0], [0, 1, 2, 3, 0]])  # the same texts
SEE = causal_mask(L)
ADDED = torch.zeros(N, 1, L, L).masked_fill(~SEE, torch.finfo(torch.float32).min)
X = torch.randn(N, H, L, E, generator=torch.Generator().manual_seed(0))
LAYER = torch.nn.MultiheadAttention(H * E, H, batch_first=True).eval()
BLOCKED = (torch.rand(N * H, L, L, generator=torch.Generator().manual_seed(1)) > 0.5) & ~torch.eye(
    L
).bool()


def attend(mask):
    return scaled_dot_product_attention(X, X, X, attn_mask=mask)


def in_layer(mask):
    tokens = X.transpose(1, 2).flatten(2)
    return MultiHeadAttention.from_torch(LAYER)(tokens, attn_mask=mask).output


def mask_of(converter):
    return lambda given: attend(converter(given))


# What is called, with what, the code that the message names, and the mask of which it is right.
# In that code the names are those that a learner has.
NAMES = {"torch": torch, "from_hf_attention_mask": from_hf_attention_mask, "N": N, "H": H}
NAMES |= {"L": L, "S": L, "position_ids": POSITIONS, "ids": IDS}
ADVICE = [
    (
        attend,
        "attn_mask",
        WORDS.long(),
        "from_hf_attention_mask(attn_mask)",
        WORDS[:, None, None, :],
    ),
    (attend, "attn_mask", SEE.long(), "attn_mask.bool()", SEE),
    (attend, "attn_mask", SEE.long()[None, None], "attn_mask.bool()", SEE),
    (attend, "attn_mask", ADDED.double(), "attn_mask.to(torch.float32)", SEE),
    (attend, "attn_mask", WORDS, "attn_mask[:, None, None, :]", WORDS[:, None, None, :]),
    (attend, "attn_mask", ~BLOCKED, "attn_mask.view(N, H, L, S)", ~BLOCKED.view(N, H, L, L)),
    (attend, "attn_mask", SEE.to_sparse(), "attn_mask.to_dense()", SEE),
    (attend, "attn_mask", SEE.tolist(), "torch.as_tensor(attn_mask)", SEE),
    (attend, "attn_mask", [*SEE], "torch.stack(attn_mask)", SEE),
    (
        mask_of(from_hf_attention_mask),
        "attention_mask",
        torch.zeros(N, L).masked_fill(~WORDS, -torch.inf),
        "attention_mask == 0",
        WORDS[:, None, None, :],
    ),
    (
        mask_of(from_key_padding_mask),
        "key_padding_mask",
        torch.zeros(N, L).masked_fill(~WORDS, -torch.inf),
        "key_padding_mask < 0",
        WORDS[:, None, None, :],
    ),
    (
        mask_of(from_key_padding_mask),
        "key_padding_mask",
        (~WORDS).long(),
        "key_padding_mask.bool()",
        WORDS[:, None, None, :],
    ),
]


@pytest.mark.parametrize(("call", "name", "given", "code", "right"), ADVICE)
def test_what_the_message_names_gives_the_right_output(call, name, given, code, right):
    with pytest.raises((TypeError, ValueError)) as caught:
        call(given)
    assert code in str(caught.value)
    followed = call(eval(code, {**NAMES, name: given}))
    torch.testing.assert_close(followed, F.scaled_dot_product_attention(X, X, X, attn_mask=right))


@pytest.mark.parametrize("given", [SEE[None, None].long(), ADDED, SEE[None, None].float()])
def test_a_mask_with_queries_is_used_as_the_message_says(given):
    with pytest.raises(ValueError, match="use attention_mask") as caught:
        from_hf_attention_mask(given)
    code = str(caught.value).split("use ")[1].removesuffix(" as attn_mask.")
    right = F.scaled_dot_product_attention(X, X, X, attn_mask=SEE)
    torch.testing.assert_close(attend(eval(code, {"attention_mask": given})), right)


@pytest.mark.parametrize("given", [IDS, POSITIONS])
def test_packed_texts_attend_to_their_own_words_only(given):
    with pytest.raises(ValueError, match="packed texts") as caught:
        from_hf_attention_mask(given)
    pack, rest = str(caught.value).split("use ")[1].split(" as attn_mask; of position ids, ")
    count = rest.removesuffix(" makes such numbers.")
    own = eval(pack, {"ids": IDS})
    assert torch.equal(own, eval(pack, {"ids": eval(count, {"position_ids": POSITIONS})}))
    output = attend(combine_masks(own, SEE))
    for row, ids in enumerate(IDS):
        for text in ids.unique():
            alone = X[row, :, ids == text]
            right = F.scaled_dot_product_attention(alone, alone, alone, is_causal=True)
            torch.testing.assert_close(output[row, :, ids == text], right)


@pytest.mark.parametrize("added", [False, True])
def test_a_layer_takes_the_mask_of_torch_as_its_message_says(added):
    mask = torch.zeros(BLOCKED.shape).masked_fill(BLOCKED, -torch.inf) if added else BLOCKED
    with pytest.raises(ValueError, match="and ~ of it if it is bool") as caught:
        in_layer(mask)
    assert "attn_mask.view(N, H, L, S)" in str(caught.value)
    viewed = mask.view(N, H, L, L)
    tokens = X.transpose(1, 2).flatten(2)
    right = LAYER(tokens, tokens, tokens, attn_mask=mask)[0]
    torch.testing.assert_close(in_layer(viewed if added else ~viewed), right)


def test_nested_texts_are_padded_as_the_message_says():
    rows = [X[0, 0, :length] for length in LENGTHS]
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
    with pytest.raises(TypeError, match="nested one") as caught:
        scaled_dot_product_attention(nested, nested, nested)
    assert "torch.nested.to_padded_tensor(query, 0.0)" in str(caught.value)
    padded = torch.nested.to_padded_tensor(nested, 0.0)
    output = scaled_dot_product_attention(padded, padded, padded, sequence_mask(LENGTHS)[:, None])
    for row, length in enumerate(LENGTHS):
        alone = X[0, 0, :length]
        right = F.scaled_dot_product_attention(alone, alone, alone)
        torch.testing.assert_close(output[row, :length], right)


PICTURES = [
    (plot_heads, (torch.full((1, H, L, L), 1 / L),) * 2, "weights[0]"),
    (plot_heads, ((torch.full((1, H, L, L), 1 / L),),), "weights[0][0]"),
    (plot_heads, torch.full((N, H, L, L), 1 / L), "weights[0]"),
    (plot_attention, torch.full((H, L, L), 1 / L), "weights[0]"),
    (plot_attention, torch.full((N, H, L, L), 1 / L), "weights[0, 0]"),
    (plot_attention, torch.full((L,), 1 / L), "weights[None]"),
    (plot_attention, [[0.5, 0.5], [0.25, 0.75]], "torch.as_tensor(weights)"),
]


@pytest.mark.parametrize(("draw", "weights", "code"), PICTURES)
def test_pictures_are_drawn_as_their_message_says(draw, weights, code):
    with pytest.raises((TypeError, ValueError)) as caught:
        draw(weights)
    assert code in str(caught.value)
    assert draw(eval(code, {"weights": weights, "torch": torch}))
    plt.close("all")


@pytest.mark.parametrize("draw", [plot_heads, plot_attention])
def test_what_holds_no_weights_says_how_to_get_them(draw):
    with pytest.raises(TypeError, match='attn_implementation="eager"'):
        draw(None)
    with pytest.raises(TypeError, match="meta device"):
        draw(torch.full((L, L), 1 / L, device="meta"))
