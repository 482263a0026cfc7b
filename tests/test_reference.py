"""Known experiments done again: every number of ``reference.json`` is computed with attnlab.

Both sentences are the examples of the lessons; the order of the random draws matters.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from attnlab import (
    SelfAttention,
    attention_scores,
    attention_weights,
    load_table,
    trace_attention,
)

EXPECTED = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))


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
    "he_is_awesome": he_is_awesome,
    "the_next_day_is_bright": the_next_day_is_bright,
}


@pytest.fixture(scope="module")
def replayed() -> dict[str, dict[str, object]]:
    with torch.no_grad():
        return {name: experiment() for name, experiment in EXPERIMENTS.items()}


def test_every_expected_number_is_replayed(replayed):
    names = {experiment: list(values) for experiment, values in replayed.items()}
    assert names == {experiment: list(values) for experiment, values in EXPECTED.items()}


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
    expected = torch.tensor(EXPECTED["the_next_day_is_bright"]["context_vec"])
    assert_close(layer(x[None]).output[0].detach(), expected, rtol=1e-5, atol=1e-4)
