"""attnlab: scaled dot-product attention, taken apart and measured.

The names here are what the lessons import: kernels, masks, positions, heads, layers and
measurements; they need torch only. Pictures live in ``attnlab.plotting`` and ``attnlab.display``,
sliders in ``attnlab.explorers``.
"""

# ruff: noqa: F401  (__all__ finds functions and classes by themselves)

from attnlab.attention import (
    AttentionTrace,
    attention_scores,
    attention_weights,
    scaled_dot_product_attention,
    trace_attention,
)
from attnlab.display.table import Table, data_path, load_table
from attnlab.heads import merge_heads, split_heads
from attnlab.layers.cache import KeyValueCache
from attnlab.layers.memory import PeakMemory
from attnlab.layers.modules import AttentionOutput, MultiHeadAttention, SelfAttention
from attnlab.layers.positions import alibi_bias, rotate, sinusoidal_positions
from attnlab.layers.tiled import tiled_attention
from attnlab.masks import (
    causal_mask,
    combine_masks,
    from_hf_attention_mask,
    from_key_padding_mask,
    sequence_mask,
    sliding_window_mask,
    to_additive_mask,
)
from attnlab.measures import (
    effective_keys,
    influence_map,
)

__all__ = sorted(name for name, thing in globals().items() if callable(thing))
