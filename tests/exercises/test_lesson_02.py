"""The checks of lesson 2: what they accept, and what they say of answers that are not slips."""

import torch
import torch.nn.functional as F

from tests.exercises.verdicts import accepts, names


def size(x):
    return x.square().mean(dim=-1, keepdim=True).sqrt()


def normed(query, key, size=size):
    return (query / size(query)) @ (key / size(key)).mT / query.shape[-1] ** 0.5


def unturned(query, key):
    return query @ key.mT / size(query) / size(key) / query.shape[-1] ** 0.5


def both(query, key, value):
    query, key = (x / x.shape[-1] ** 0.25 for x in (query, key))
    return (query @ key.mT).softmax(dim=-1) @ value


def key_alone(query, key, value):
    return (query @ (key / key.shape[-1] ** 0.5).mT).softmax(dim=-1) @ value


def half_a_start(d_k):
    w = torch.randn(2, 64, d_k) / 8
    w[0] /= d_k**0.5
    return w


test_accepts = accepts({
    "check_divided_once": [
        both,
        key_alone,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: torch.einsum(
            "...ls,...se->...le", (q @ k.transpose(-1, -2) * q.size(-1) ** -0.5).softmax(-1), v
        ),
    ],
    "check_small_start": [
        lambda d_k: torch.randn(2, 64, d_k) / 8 / d_k**0.25,
        half_a_start,
        lambda d_k: (torch.randn(64, d_k) / 8, torch.randn(64, d_k) / (64 * d_k) ** 0.5),
        lambda d_k: torch.empty(2, 64, d_k).normal_(0, (64 * d_k**0.5) ** -0.5).requires_grad_(),
        lambda d_k: (torch.rand(2, 64, d_k) * 2 - 1) * 3**0.5 / 8 / d_k**0.25,
    ],
    "check_three_logs": [
        ("CAB", 256),
        lambda: ["cab", torch.tensor(256.0)],
        (("C", "A", "B"), 256.0),
        ["C, A, B", 2**8],
    ],
    "check_normed_scores": [
        lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * q.shape[-1] ** 0.5,
        lambda q, k: normed(q.double(), k.double()),
        lambda q, k: F.rms_norm(q, q.shape[-1:]) @ F.rms_norm(k, k.shape[-1:]).mT
        / q.shape[-1] ** 0.5,
        lambda q, k: normed(q, k, lambda x: (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()),
    ],
})  # fmt: skip

test_names_the_mistake = names({
    "check_divided_once": {
        "Swap the last two with key.mT": lambda q, k, v: (
            (q @ k.T / q.shape[-1] ** 0.5).softmax(dim=-1) @ v
        ),
        "number of features, query.shape[-1]": lambda q, k, v: (
            (q @ k.mT / q.shape[-1] ** 0.75).softmax(dim=-1) @ v
        ),
        "Write d_k ** 0.5.": lambda q, k, v: (q / q.shape[-1] ** 1 / 2 @ k.mT).softmax(dim=-1) @ v,
        ("query (2, 5, 64)", "the output is wrong", "wrong for a batch"): lambda q, k, v: (
            (q @ k.mT / q.shape[-1] ** 0.5).softmax(1) @ v
        ),
        "In all, a score is divided by d_k": lambda q, k, v: (
            (q / q.shape[-1] @ k.mT).softmax(dim=-1) @ v
        ),
        ("query (2, 5, 64)", "for one sequence and"): lambda q, k, v: (
            (q @ k.mT / k.shape[1] ** 0.5).softmax(dim=-1) @ v
        ),
    },
    "check_small_start": {
        ("With d_k = 16", "a spread of 0.0158"): lambda d_k: torch.randn(2, 64, d_k) / 8 / d_k,
        ("With d_k = 64", "divided by d_k alone"): lambda d_k: torch.randn(2, 64, d_k) / d_k,
        ("With d_k = 16", "times 64 · √16"): lambda d_k: torch.stack(
            [torch.nn.init.xavier_normal_(torch.empty(64, d_k)) for _ in range(2)]
        ),
        "a spread of 1.43, which": lambda d_k: torch.randn(2, 64, d_k) * 1.19 / 8 / d_k**0.25,
        "The two matrices are the same": lambda d_k: [torch.randn(64, d_k) / 8 / d_k**0.25] * 2,
        "multiples of each other": lambda d_k: torch.randn(64, d_k) / torch.tensor([
            [[8]], [[-8 * d_k**0.5]]
        ]),
        "With d_k = 100": lambda d_k: (
            torch.randn(2, 64, d_k) / 8 / (1 if d_k == 100 else d_k**0.25)
        ),
        "a tensor of shape (2, 64, 16)": lambda d_k: torch.randn(2, d_k, 64) / 8,
        "both matrices in one tensor": lambda d_k: 1 / d_k**0.25,
        "with NaN or infinity": lambda d_k: torch.randn(2, 64, d_k) / 0,
        "a spread of 0, which": lambda d_k: torch.zeros(2, 64, d_k),
        ("With d_k = 64", "times 64 · √64"): lambda d_k: torch.randn(2, 64, d_k) / 16,
        "Draw numbers whose mean is 0": lambda d_k: torch.rand(2, 64, d_k) / 8 / d_k**0.25,
        "Draw each number": lambda d_k: torch.full((2, 64, d_k), 0.02 / d_k**0.5),
    },
    "check_three_logs": {
        "In B the loudest tenth": ("BCA", 256),
        "In A the loudest tenth": ("ACB", 256),
        "the other two are exchanged": ("CBA", 32),
        "must become higher, not lower": ("CAB", 1),
        "By how much does 1 / d_k change": ("CAB", 1024),
        "each of A, B and C once": ("BCC", 256),
        "a string. It should be three letters": "BCA",
        "without quotation marks": ("CAB", "256"),
    },
    "check_normed_scores": {
        "needs keepdim=True": lambda q, k: normed(q / q.square().mean(dim=-1).sqrt(), k),
        "Swap the last two": lambda q, k: q @ k.T,
        "into a row, with .mT": unturned,
        ("query (2, 5, 11)", "must run over the features"): lambda q, k: (
            F.normalize(q) @ F.normalize(k).mT * q.shape[-1] ** 0.5
        ),
        "shape (2, 7, 5) instead of (2, 5, 7). Count": lambda q, k: normed(k, q),
        "the square root of a negative number": lambda q, k: normed(q, k).sub(9).sqrt(),
    },
})  # fmt: skip
