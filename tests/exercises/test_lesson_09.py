"""The checks of lesson 9: what they accept, and what they say of answers that are not slips."""

import torch

from attnlab import exercises
from attnlab import scaled_dot_product_attention as attention
from tests.exercises.verdicts import accepted, accepts, names, refused


def weigh(query, key, mask, blocked=-torch.inf):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.masked_fill(~mask, blocked).softmax(dim=-1)


# --- a probe for gradients ------------------------------------------------------------------------


def leaves_of(*sizes):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(size, generator=generator).requires_grad_() for size in sizes]


def fresh():
    return leaves_of((2, 5, 11), (2, 7, 11), (2, 7, 3))


def moves(gradient):
    return gradient is not None and bool(gradient.abs().max() > 0)


def probe(make=fresh, good=moves, guard=True):
    """Return a probe: what it makes, when a gradient is good, and whether none may be."""

    def learns(attend):
        leaves = make()
        output = attend(*leaves)
        if output.requires_grad or not guard:
            output.square().sum().backward()
        return all(good(leaf.grad) for leaf in leaves)

    return learns


def with_old(*parts):
    """Return a probe that keeps some of its inputs from call to call."""
    kept = fresh()
    return probe(lambda: [kept[i] if i in parts else leaf for i, leaf in enumerate(fresh())])


# --- a wrong function that passes -----------------------------------------------------------------


def scaled_by_the_keys(query, key, value):
    return attention(query, key, value, scale=(6.4 * key.shape[-2]) ** -0.5)


def like_c_up_to_64_features(query, key, value):
    return attention(query, key, value, scale=1 / max(8, query.shape[-1] ** 0.5))


def joined_sequences(query, key, value):
    joined = (part.reshape(1, -1, part.shape[-1]) for part in (query, key, value))
    return attention(*joined).view(*query.shape[:-1], value.shape[-1])


def by_torch_exp(query, key, value):  # patient D in another style
    weights = torch.exp(torch.einsum("nle,nse->nls", query, key) * query.shape[-1] ** -0.5)
    return torch.bmm(weights / weights.sum(dim=2, keepdim=True), value)


def doubles_its_value_afterwards(query, key, value):
    output = attention(query, key, value)
    value *= 2
    return output


def limits_its_scores(query, key, value):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.clamp(-8, 8).softmax(dim=-1) @ value


def times_infinity(query, key, value, mask):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return (scores - torch.inf * ~mask).softmax(dim=-1) @ value


def only_one_sequence(query, key, value):
    return attention(query, key, value.view(1, *value.shape[-2:]))


def unscaled_at_a_thousand_keys(query, key, value):
    return attention(query, key, value, scale=None if key.shape[-2] < 1000 else 1.0)


# --- all ------------------------------------------------------------------------------------------

test_accepts = accepts({
    "check_hiding_sizes": [
        lambda: torch.tensor([3, 4, 64, 64, 64]),
        [2, 2, 2, 2, 2],
    ],
    "check_mended_mask": [
        lambda q, k, v, mask: attention(q, k, v, attn_mask=mask),
        lambda q, k, v, mask: weigh(q, k, mask, blocked=-1e9) @ v,
    ],
    "check_learning_probe": [
        probe(lambda: leaves_of(*3 * [(2, 3, 5, 4)])),
    ],
    "check_disguise": [
        scaled_by_the_keys,
        like_c_up_to_64_features,
        joined_sequences,
        doubles_its_value_afterwards,
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_hiding_sizes": {
        "At these sizes, `patient_x` is off by up to": lambda: (2, 5, 7, 11, 3),
        "With one key, its weight is 1": (2, 5, 1, 11, 3),
        "five whole numbers, each at least 2": (2, 5, 11.5, 11.5, 3),
    },
    "check_mended_mask": {
        "Zero times infinity is NaN": times_infinity,
        "contains NaN, although": lambda q, k, v, mask: weigh(q, k, mask, blocked=torch.inf) @ v,
        "such as 1e-9": lambda q, k, v, mask: weigh(q, k, mask, blocked=1e-9) @ v,
    },
    "check_learning_probe": {
        "some of the gradients may be 0": (
            probe(good=lambda gradient: gradient is not None and bool((gradient != 0).all()))
        ),
        "True for frozen_weights. Neither": with_old(0, 1, 2),
        "because gradients add up in `.grad`": with_old(0),
        "cut off gets no gradient, so return False": probe(good=lambda gradient: gradient.any()),
        "the sizes, not the sums": probe(good=lambda g: g is not None and g.sum() > 0),
        ("detaches its output", "return False before backward()"): probe(guard=False),
    },
    "check_disguise": {
        "This is patient D": by_torch_exp,
        "clinic could not examine it": only_one_sequence,
        "something limits them": limits_its_scores,
        ("finds nothing wrong either", "only where the clinic does not look"): (
            unscaled_at_a_thousand_keys
        ),
        ("weak_check catches your function. With", "the output is wrong. Make your function"): (
            lambda q, k, v: attention(q, k, v, scale=1.0)
        ),
        "torch.float64 instead of torch.float32": lambda q, k, v: attention(q, k, v).double(),
    },
})  # fmt: skip


def test_what_is_no_function_is_not_called_one():
    assert refused(exercises.check_disguise, 3).message.startswith("Your answer is not a function.")


def test_the_report_of_the_clinic_comes_with_the_verdict():
    assert refused(exercises.check_mended_mask, lambda q, k, v: v).message.endswith("4 were given.")
    unseen = accepted(exercises.check_mended_mask, lambda q, k, v, m: weigh(q, k, m) @ v)
    assert "the clinic did not see which argument is which" in unseen.message
    verdict = accepted(exercises.check_mended_mask, lambda q, k, v, mask: weigh(q, k, mask) @ v)
    assert verdict.report.ok
    assert "no allowed key gives NaN" in " ".join(verdict.remarks)
