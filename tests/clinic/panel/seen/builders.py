"""Functions that build masks from arguments of many names."""

import torch

from tests.clinic.panel._case import builder, given
from tests.clinic.panel._plain import grid


@builder(
    "prefix_lm",
    "prefix",
    sample=lambda: given(5, 2),
    expected=lambda seq_len, prefix_len: grid(5, 5, lambda i, j: j <= i or j < 2),
)
def prefix_lm_mask(seq_len, prefix_len):
    """True = may attend: the prefix is seen by all, the rest is causal."""
    mask = torch.tril(torch.ones(seq_len, seq_len, dtype=torch.bool))
    mask[:, :prefix_len] = True
    return mask


@builder(
    "chunked_causal",
    "chunks",
    sample=lambda: given(6, 2),
    expected=lambda size, chunk_size: grid(6, 6, lambda i, j: j // 2 <= i // 2),
)
def subsequent_chunk_mask(size, chunk_size, num_left_chunks=-1, device="cpu"):
    """True = may attend: one's own chunk and the num_left_chunks before it (-1: all)."""
    ret = torch.zeros(size, size, device=device, dtype=torch.bool)
    for i in range(size):
        start = 0
        if num_left_chunks >= 0:
            start = max((i // chunk_size - num_left_chunks) * chunk_size, 0)
        ending = min((i // chunk_size + 1) * chunk_size, size)
        ret[i, start:ending] = True
    return ret


@builder(
    "same_document",
    "documents",
    sample=lambda: given(torch.tensor([[0, 0, 1, 1, 1], [4, 4, 4, 2, 2]])),
    expected=lambda doc_ids: torch.stack(
        [
            grid(5, 5, lambda i, j: j <= i and (i < 2) == (j < 2)),
            grid(5, 5, lambda i, j: j <= i and (i < 3) == (j < 3)),
        ]
    )[:, None],
)
def document_causal_mask(doc_ids):
    """doc_ids: (batch, length); a token sees the earlier ones of its own document."""
    length = doc_ids.shape[-1]
    same = doc_ids[:, :, None] == doc_ids[:, None, :]
    causal = torch.arange(length)[:, None] >= torch.arange(length)[None, :]
    return (same & causal.to(doc_ids.device)).unsqueeze(1)


@builder(
    "symmetric_band",
    "window",
    sample=lambda: given(6, 1),
    expected=lambda n, bandwidth: grid(6, 6, lambda i, j: abs(i - j) <= 1),
)
def band_mask(n, bandwidth):
    """A boolean band around the diagonal, True = may attend."""
    idx = torch.arange(n)
    return (idx[None, :] - idx[:, None]).abs() <= bandwidth


@builder(
    "sink_window",
    "window",
    sample=lambda: given(7, window_size=2, sink_size=1),
    expected=lambda seq_len, window_size, sink_size: grid(
        7, 7, lambda i, j: j <= i and (i - j < 2 or j < 1)
    ),
)
def streaming_mask(seq_len, window_size, sink_size=1):
    """Causal: the last window_size tokens and the first sink_size ones."""
    rows = torch.arange(seq_len).unsqueeze(1)
    cols = torch.arange(seq_len).unsqueeze(0)
    recent = (rows - cols) < window_size
    sink = cols < sink_size
    return (rows >= cols) & (recent | sink)


@builder(
    "global_tokens",
    "global",
    sample=lambda: given(7, 1, 2),
    expected=lambda seq_len, window, num_global: grid(
        7, 7, lambda i, j: abs(i - j) <= 1 or i < 2 or j < 2
    ),
)
def longformer_mask(seq_len, window, num_global):
    """A window to both sides; the first num_global tokens see all and are seen by all."""
    mask = torch.zeros(seq_len, seq_len, dtype=torch.bool)
    for offset in range(-window, window + 1):
        mask |= torch.diag(torch.ones(seq_len - abs(offset), dtype=torch.bool), offset)
    mask[:num_global, :] = True
    mask[:, :num_global] = True
    return mask


@builder(
    "cache_causal",
    "past",
    sample=lambda: given(3, 2),
    expected=lambda tgt_len, past: grid(3, 5, lambda i, j: j <= i + 2)[None, None],
)
def make_causal_mask(tgt_len, past_key_values_length=0):
    """(1, 1, tgt_len, past + tgt_len) of bool: the cached tokens are seen by all."""
    mask = torch.tril(torch.ones(tgt_len, tgt_len, dtype=torch.bool))
    past = torch.ones(tgt_len, past_key_values_length, dtype=torch.bool)
    return torch.cat([past, mask], dim=-1)[None, None]


@builder(
    "strided_sparse",
    "dilated",
    sample=lambda: given(8, 3),
    expected=lambda n_ctx, stride: grid(
        8, 8, lambda i, j: j <= i and (i - j < 3 or (i - j) % 3 == 0)
    ),
)
def strided_attention_mask(n_ctx, stride):
    """Sparse transformer: the last tokens, and every stride-th one before; True = seen."""
    i = torch.arange(n_ctx).view(-1, 1)
    j = torch.arange(n_ctx).view(1, -1)
    local = i - j < stride
    summary = (i - j) % stride == 0
    return (j <= i) & (local | summary)


@builder(
    "alibi_with_slopes",
    "alibi",
    options={"mask": "additive"},
    sample=lambda: given(4, torch.tensor([0.5, 0.25])),
    expected=lambda seq_len, slopes: torch.stack(
        [torch.tensor([[s * (j - i) if j <= i else -torch.inf for j in range(4)] for i in range(4)])
         for s in (0.5, 0.25)]
    ),
)  # fmt: skip
def build_alibi_mask(seq_len, slopes):
    """Additive: slope * (j - i) for the keys that are seen, -inf for later ones."""
    distance = torch.arange(seq_len)[None, :] - torch.arange(seq_len)[:, None]
    bias = distance[None] * slopes[:, None, None]
    return bias.masked_fill(distance[None] > 0, float("-inf"))


@builder(
    "pad_id_mask",
    "ids",
    sample=lambda: given(torch.tensor([[5, 6, 1, 1], [7, 1, 1, 1]]), 1),
    expected=lambda input_ids, pad_id: torch.tensor(
        [[True, True, False, False], [True, False, False, False]]
    )[:, None, None],
)
def make_src_mask(src, src_pad_idx=1):
    """src: (batch, length) of token ids; True where it is no padding."""
    return (src != src_pad_idx).unsqueeze(1).unsqueeze(2)


@builder(
    "tree_parents",
    "lengths of both",
    sample=lambda: given([-1, 0, 0, 1]),
    expected=lambda parents: (
        torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]) == 1
    ),
)
def tree_attention_mask(parents):
    """parents: the parent of each token, -1 for the root; a token sees its ancestors."""
    mask = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            mask[node] |= mask[parent]
    return mask


@builder(
    "inverted_extended",
    "blocked",
    options={"mask": "additive"},
    sample=lambda: given(torch.tensor([[1, 1, 0], [1, 0, 0]])),
    expected=lambda attention_mask: (
        torch.tensor([[0, 0, 1], [0, 1, 1]])[:, None, None] * torch.finfo(torch.float32).min
    ),
)
def get_extended_attention_mask(attention_mask, dtype=torch.float32):
    """Additive: 0 for tokens and the smallest number for padding, (batch, 1, 1, length)."""
    extended = attention_mask[:, None, None, :].to(dtype)
    return (1.0 - extended) * torch.finfo(dtype).min


@builder(
    "window_of_image",
    "images",
    sample=lambda: given(2, 4, 2),
    expected=lambda height, width, window: grid(8, 8, lambda i, j: (i % 4) // 2 == (j % 4) // 2),
)
def image_window_mask(height, width, window):
    """Places of an image see those of their own window x window square."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    square = (y // window) * ((width + window - 1) // window) + x // window
    square = square.flatten()
    return square[:, None] == square[None, :]
