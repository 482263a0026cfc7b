"""Known experiments replayed with attnlab: every number of ``reference.json`` is computed again.

S0: tokens ten times too large. S2: "He is awesome" by hand. S3: queries and keys of 512 features.
S4: "The next day is bright" with trainable projections. Seeds and the order of the draws matter.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from attnlab import (
    SelfAttention,
    attention_scores,
    attention_weights,
    load_table,
    max_weight,
    score_variance,
    softmax_jacobian,
    trace_attention,
)

EXPECTED = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))


def jacobian_norms(weights: Tensor) -> Tensor:
    return softmax_jacobian(weights).flatten(-2).norm(dim=-1)


def large_tokens() -> dict[str, object]:
    torch.manual_seed(42)
    layer = SelfAttention(8, 8, bias=True)  # draws query, key, value in this order
    tokens = torch.randn(10, 8) * 10
    query, key, value = layer.q_proj(tokens), layer.k_proj(tokens), layer.v_proj(tokens)
    raw = attention_scores(query, key, scale=1.0)
    output, weights, scores = trace_attention(query, key, value)
    assert_close(layer(tokens[None]).output[0], output)
    products = torch.cov((query[:, None] * key[None]).reshape(-1, 8).T)
    small = attention_scores(layer.q_proj(tokens / 10), layer.k_proj(tokens / 10))
    return {
        "W_query": layer.q_proj.weight,
        "tokens": tokens,
        "scores_unscaled": raw,
        "var_q": query.var(),
        "var_k": key.var(),
        "var_scores_unscaled": raw.var(),
        "var_scores_scaled": scores.var(),
        "attn_scores": scores,
        "attn_weights": weights,
        "attention_output": output,
        "tokens_var": tokens.var(),
        "mean_q_mean_k": torch.stack([query.mean(), key.mean()]),
        "rows_with_max_above_0.99": (max_weight(weights) > 0.99).sum(),
        "mean_within_row_var_scaled": score_variance(scores).mean(),
        "sum_cov_between_products": products.sum() - products.trace(),
        "frobenius_norm_A_squared": (layer.q_proj.weight.T @ layer.k_proj.weight).square().sum(),
        "jacobian_fro_per_row": jacobian_norms(weights),
        "var_scaled_without_x10": small.var(),
    }


def he_is_awesome() -> dict[str, object]:
    x = load_table("he_is_awesome.csv").values
    raw = attention_scores(x, x, scale=1.0)
    context, weights, scores = trace_attention(x, x, x)
    by_hand = weights[2, 0] * x[0] + weights[2, 1] * x[1] + weights[2, 2] * x[2]
    over_queries = torch.stack([scores, scores]).softmax(dim=1)  # the wrong dimension
    return {
        "scores_raw": raw,
        "scaling_factor": raw[0, 0] / scores[0, 0],
        "scores_scaled": scores,
        "weights": weights,
        "row_sums": weights.sum(dim=-1),
        "context": context,
        "context_row_2_by_hand": by_hand,
        "allclose_by_hand": torch.allclose(by_hand, context[2]),
        "cosine_matrix": F.cosine_similarity(x[:, None], x[None], dim=-1),
        "raw_row_sums": raw.sum(dim=-1),
        "batched_dim1_row_sums_wrong": over_queries.sum(dim=-1)[0],
    }


def many_features() -> dict[str, object]:
    torch.manual_seed(42)
    torch.randn(3, 4, 8)  # an earlier experiment took these numbers
    query, key, _ = torch.randn(1, 4, 512), torch.randn(1, 4, 512), torch.randn(1, 4, 512)
    raw_a, scaled_a = attention_scores(query, key, scale=1.0), attention_scores(query, key)
    torch.manual_seed(42)
    query, key = torch.randn(1, 10, 512), torch.randn(1, 10, 512)
    raw_b, scaled_b = attention_scores(query, key, scale=1.0), attention_scores(query, key)
    return {
        "exp3a_var_unscaled": raw_a.var(),
        "exp3a_var_scaled": scaled_a.var(),
        "exp3a_row0_unscaled": attention_weights(raw_a)[0, 0],
        "exp3a_row0_scaled": attention_weights(scaled_a)[0, 0],
        "exp3a_row_max_unscaled": max_weight(attention_weights(raw_a))[0],
        "exp3a_weights_scaled": attention_weights(scaled_a),
        "exp3b_var_unscaled": raw_b.var(),
        "exp3b_var_scaled": scaled_b.var(),
        "exp3b_weights_unscaled": attention_weights(raw_b),
        "exp3b_weights_scaled": attention_weights(scaled_b),
        "exp3b_row_max_scaled": max_weight(attention_weights(scaled_b))[0],
        "exp3b_mean_jacobian_fro_scaled": jacobian_norms(attention_weights(scaled_b)).mean(),
    }


def the_next_day_is_bright() -> dict[str, object]:
    x = load_table("the_next_day_is_bright.csv").values
    torch.manual_seed(123)
    w_query, w_key, w_value = torch.rand(8, 4), torch.rand(8, 4), torch.rand(8, 4)
    query, key, value = x @ w_query, x @ w_key, x @ w_value
    raw = attention_scores(query, key, scale=1.0)
    context, weights, scores = trace_attention(query, key, value)
    t = torch.tensor([[0.1, -0.2, 0.3, -0.2, 0.5]])
    torch.manual_seed(789)
    with_linear = SelfAttention(8, 4)
    die = torch.arange(1.0, 7, dtype=torch.float64)
    return {
        "x_2": x[1],
        "W_query": w_query,
        "W_key": w_key,
        "W_value": w_value,
        "query_2": query[1],
        "attn_score_22": query[1] @ key[1],
        "attn_scores_2": raw[1],
        "attn_scores": raw,
        "attn_weights_2": weights[1],
        "attn_weights_final": weights,
        "row_sums": weights.sum(dim=1),
        "softmax_t": attention_weights(t)[0],
        "softmax_8t": attention_weights(8 * t)[0],
        "context_vec_2": context[1],
        "context_vec": context,
        "sa_v2": with_linear(x[None]).output[0],
        "keys": key,
        "values": value,
        "argmax_per_row": weights.argmax(dim=-1),
        "max_column_spread_over_rows": weights.amax(dim=0) - weights.amin(dim=0),
        "var_scores_scaled": scores.var(),
        "hundred_dice_variance": 100 * die.var(correction=0),
    }


EXPERIMENTS: dict[str, Callable[[], dict[str, object]]] = {
    "S0": large_tokens,
    "S2": he_is_awesome,
    "S3": many_features,
    "S4": the_next_day_is_bright,
}


@pytest.fixture(scope="module")
def replayed() -> dict[str, dict[str, object]]:
    with torch.no_grad():
        return {name: experiment() for name, experiment in EXPERIMENTS.items()}


def test_every_expected_number_is_replayed(replayed):
    assert {name: list(values) for name, values in replayed.items()} == {
        name: list(values) for name, values in EXPECTED.items()
    }


@pytest.mark.parametrize(
    ("experiment", "key"), [(name, key) for name, values in EXPECTED.items() for key in values]
)
def test_replayed_number_equals_the_expected_one(replayed, experiment, key):
    actual = torch.as_tensor(replayed[experiment][key]).double()
    expected = torch.tensor(EXPECTED[experiment][key]).double()
    assert_close(actual, expected, rtol=1e-5, atol=1e-4)


def test_projections_as_bare_matrices_and_as_a_layer_give_the_same():
    x = load_table("the_next_day_is_bright.csv").values
    torch.manual_seed(123)
    matrices = [torch.rand(8, 4) for _ in range(3)]
    layer = SelfAttention(8, 4)
    for projection, matrix in zip(
        (layer.q_proj, layer.k_proj, layer.v_proj), matrices, strict=True
    ):
        projection.weight = nn.Parameter(matrix.T.contiguous())
    expected = torch.tensor(EXPECTED["S4"]["context_vec"])
    assert_close(layer(x[None]).output[0].detach(), expected, rtol=1e-5, atol=1e-4)
