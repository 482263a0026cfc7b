"""attnlab: scaled dot-product attention, taken apart and measured.

The names here are the kernels, masks, positions, heads, layers and measurements; they need torch
only. Pictures and sliders live in ``attnlab.plotting``, ``attnlab.display`` and ``attnlab.live``.
"""

# ruff: noqa: F401  (__all__ finds functions and classes by themselves)

from attnlab.attention import (
    AttentionTrace,
    attention_scores,
    attention_weights,
    scaled_dot_product_attention,
    trace_attention,
)
from attnlab.cache import KeyValueCache
from attnlab.data import Table, data_path, load_table
from attnlab.diagnostics import (
    attention_entropy,
    effective_keys,
    gradient_norms,
    influence_map,
    max_weight,
    score_variance,
    softmax_jacobian,
)
from attnlab.heads import merge_heads, split_heads
from attnlab.masks import (
    causal_mask,
    combine_masks,
    from_hf_attention_mask,
    from_key_padding_mask,
    sequence_mask,
    sliding_window_mask,
    to_additive_mask,
    to_key_padding_mask,
)
from attnlab.memory import PeakMemory
from attnlab.modules import AttentionOutput, MultiHeadAttention, SelfAttention
from attnlab.positions import alibi_bias, rotate, sinusoidal_positions
from attnlab.tiled import tiled_attention

__all__ = sorted(name for name, one in globals().items() if callable(one))
