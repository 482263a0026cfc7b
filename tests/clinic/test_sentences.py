"""The sentence of a finding says what is wrong, where the name of the finding alone does not."""

import pytest
import torch
from torch import nn

from attnlab import split_heads
from attnlab.clinic import diagnose


def softmax_over_the_batch(scores):
    _batch, _queries, _keys = scores.shape
    return scores.softmax(dim=0)


def logarithms(scores):
    return scores.log_softmax(dim=-1)


def sigmoids(scores):
    return scores.sigmoid()


def split_like_cards(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).movedim(-1, -3)


def split_in_opposite_order(x, num_heads):
    return split_heads(x, num_heads).flip(-3)


def split_with_turned_features(x, num_heads):
    return split_heads(x, num_heads).flip(-1)


class Layer(nn.Module):
    """One head on 12 features, with its weights."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(12, 12) for _ in range(4))

    def forward(self, x):
        weights = self.normalise(self.query(x) @ self.key(x).mT / 12**0.5)
        return self.out(weights @ self.value(x)), self.shown(weights)

    def normalise(self, scores):
        return scores.softmax(dim=-1)

    def shown(self, weights):
        return weights


class SigmoidLayer(Layer):
    def normalise(self, scores):
        return scores.sigmoid()


class LayerThatShowsOtherWeights(Layer):
    def shown(self, weights):
        return weights.flip(-1)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (softmax_over_the_batch, "softmax runs over the sequences of the batch"),
        (logarithms, "The weights are logarithms"),
        (sigmoids, "Each weight is a sigmoid of its own score"),
        (SigmoidLayer(), "Each weight is a sigmoid of its own score"),
        (LayerThatShowsOtherWeights(), "from those that made the output"),
        (split_like_cards, "head 0 holds features 0, 3, 6, 9 and not 0 to 3"),
        (split_like_cards, "deals the features out to the heads like cards"),
        (split_in_opposite_order, "puts the heads in the opposite order"),
        (split_with_turned_features, "changes the order of the features inside the heads"),
    ],
)
def test_the_sentence_says_what_is_wrong(target, words):
    torch.manual_seed(0)
    assert words in diagnose(target).findings[0].sentence
