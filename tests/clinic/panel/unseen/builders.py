"""Functions that build masks from arguments of many names."""

import math

import torch

from tests.clinic.panel._case import builder, given
from tests.clinic.panel._plain import grid


@builder(
    "image_then_text",
    "prefix",
    sample=lambda: given(2, 3),
    expected=lambda image, text: grid(5, 5, lambda i, j: j < 2 or (i >= 2 and j <= i)),
)
def multimodal_mask(num_image_tokens, num_text_tokens):
    """Image tokens see each other; text is causal and sees the whole image. True = seen."""
    total = num_image_tokens + num_text_tokens
    mask = torch.zeros(total, total, dtype=torch.bool)
    mask[:, :num_image_tokens] = True
    text = torch.ones(num_text_tokens, num_text_tokens, dtype=torch.bool).tril()
    mask[num_image_tokens:, num_image_tokens:] = text
    return mask


@builder(
    "block_local",
    "chunks",
    sample=lambda: given(6, block=2),
    expected=lambda n, block: grid(6, 6, lambda i, j: i // 2 == j // 2),
)
def block_diagonal_mask(n, block):
    """Tokens see the block of their own, to both sides."""
    index = torch.arange(n).div(block, rounding_mode="floor")
    return index.unsqueeze(0).eq(index.unsqueeze(1))


@builder(
    "segments_of_lengths",
    "documents",
    sample=lambda: given([2, 3]),
    expected=lambda seqlens: grid(5, 5, lambda i, j: j <= i and (i < 2) == (j < 2)),
)
def packed_mask(seqlens):
    """For texts packed one behind the other: causal inside each of them."""
    return torch.block_diag(*(torch.tril(torch.ones(n, n)) for n in seqlens)).bool()


@builder(
    "sliding_window",
    "window",
    sample=lambda: given(6, 3),
    expected=lambda seq_len, window: grid(6, 6, lambda i, j: 0 <= i - j < 3),
)
def sliding_window_causal_mask(seq_len, window_size, device=None):
    """True = attend: the token itself and the window_size - 1 before it."""
    ones = torch.ones(seq_len, seq_len, dtype=torch.bool, device=device)
    return torch.tril(ones) & torch.triu(ones, diagonal=1 - window_size)


@builder(
    "random_blocks",
    "global",
    sample=lambda: given(8, 2, 0),
    expected=lambda seq_len, block_size, num_random: grid(
        8, 8, lambda i, j: abs(i // 2 - j // 2) <= 1 or i < 2 or j < 2
    ),
)
def bigbird_mask(seq_len, block_size, num_random=1, seed=0):
    """Blocks see their neighbours, the first block, and num_random blocks by chance."""
    blocks = seq_len // block_size
    layout = torch.zeros(blocks, blocks, dtype=torch.bool)
    generator = torch.Generator().manual_seed(seed)
    for row in range(blocks):
        layout[row, max(0, row - 1) : row + 2] = True
        layout[row, torch.randperm(blocks, generator=generator)[:num_random]] = True
    layout[0], layout[:, 0] = True, True
    return layout.repeat_interleave(block_size, 0).repeat_interleave(block_size, 1)


@builder(
    "past_and_new",
    "past",
    sample=lambda: given(2, 3),
    expected=lambda past_len, new_len: grid(3, 5, lambda i, j: j <= i + 2),
)
def decode_mask(past_len, new_len):
    """(new_len, past_len + new_len), True = visible."""
    query_pos = torch.arange(past_len, past_len + new_len)
    key_pos = torch.arange(past_len + new_len)
    return key_pos[None, :] <= query_pos[:, None]


@builder(
    "dilated",
    "dilated",
    sample=lambda: given(8, window=2, dilation=3),
    expected=lambda length, window, dilation: grid(8, 8, lambda i, j: i - j in (0, 3, 6)),
)
def dilated_causal_mask(length, window, dilation=2):
    """Every dilation-th token back, window of them, and the token itself."""
    back = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    reached = (back >= 0) & (back <= window * dilation)
    return reached & (back.remainder(dilation) == 0)


def slopes_of(n_heads):
    """Return the slopes of ALiBi: a geometric row, for powers of two."""
    start = 2 ** (-(2 ** -(math.log2(n_heads) - 3)))
    return [start * start**i for i in range(n_heads)]


@builder(
    "alibi_bias",
    "alibi",
    options={"kind": "mask", "mask": "additive"},
    beside=(slopes_of,),
    sample=lambda: given(4, 3),
    expected=lambda n_heads, length: torch.tensor(
        [[[-(0.25**h) * abs(i - j) for j in range(3)] for i in range(3)] for h in range(1, 5)]
    ),
)
def symmetric_alibi(n_heads, length):
    """(heads, length, length) to be added to the scores."""
    position = torch.arange(length)
    distance = (position[:, None] - position[None, :]).abs()
    return -torch.tensor(slopes_of(n_heads))[:, None, None] * distance


@builder(
    "turn_ids",
    "ids",
    sample=lambda: given(torch.tensor([0, 0, 1, 2, 2])),
    expected=lambda turn_ids: grid(5, 5, lambda i, j: (0, 0, 1, 2, 2)[j] <= (0, 0, 1, 2, 2)[i]),
)
def turn_mask(turn_ids):
    """turn_ids: (length,); a turn of a talk sees itself whole and all earlier turns."""
    return turn_ids[None, :] <= turn_ids[:, None]


@builder(
    "cross_padding",
    "lengths of both",
    sample=lambda: given(torch.tensor([2, 1]), torch.tensor([3, 2])),
    expected=lambda src_lengths, tgt_lengths: torch.stack(
        [grid(3, 2, lambda i, j: True), grid(3, 2, lambda i, j: j < 1 and i < 2)]
    ),
)
def cross_attention_mask(src_lengths, tgt_lengths):
    """(batch, longest target, longest source): True where both are tokens."""
    src = torch.arange(int(src_lengths.max()))[None, :] < src_lengths[:, None]
    tgt = torch.arange(int(tgt_lengths.max()))[None, :] < tgt_lengths[:, None]
    return tgt[:, :, None] & src[:, None, :]


@builder(
    "triu_blocked",
    "blocked",
    options={"mask": "additive"},
    sample=lambda: given(4),
    expected=lambda sz: torch.where(grid(4, 4, lambda i, j: j <= i), 0.0, -torch.inf),
)
def generate_square_subsequent_mask(sz):
    """Additive: 0 up to the diagonal and -inf above it."""
    mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)


@builder(
    "axial_rows",
    "images",
    sample=lambda: given(2, 3),
    expected=lambda height, width: grid(6, 6, lambda i, j: i // 3 == j // 3 or i % 3 == j % 3),
)
def axial_mask(height, width):
    """Places of an image see their row and their column."""
    row = torch.arange(height).repeat_interleave(width)
    column = torch.arange(width).repeat(height)
    same_row = row[:, None] == row[None, :]
    same_column = column[:, None] == column[None, :]
    return same_row | same_column
