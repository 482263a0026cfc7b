"""Train small layers on 16 tokens, each told the order in another way, and test them on up to 64.

Run by hand, about 40 minutes on one core:  python data/make_train_short_test_long.py

A token is an entry of a list, an animal with a number, or a question that names an animal. In the
task "latest" half of the tokens are questions, and the answer to a question is the number of the
last entry of its animal; the test asks at the end, for animals with at least two entries. In the
task "three back" every token is an entry, and has to name the number three tokens before; the test
looks at the last token. All numbers are drawn at random, so guessing is right in 1 of 8 cases.

One layer of causal attention lies between a linear layer that reads the tokens and one that names
the number. Two layers have residual connections and LayerNorms as well.
Accuracies go to train_short_test_long.csv. For "latest" on lists of 64, how_far_back.csv splits
them by the distance of the wanted entry, for models that read a whole list or only its last 16
tokens. One trained layer with rotations, and one trained table of positions, go to
train_short_test_long.safetensors. Another CPU or version of torch moves the numbers a little.
"""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from attnlab import (
    alibi_bias,
    causal_mask,
    merge_heads,
    rotate,
    sinusoidal_positions,
    split_heads,
    to_additive_mask,
)

ANIMALS, NUMBERS = 4, 8
FEATURES = ANIMALS + NUMBERS + ANIMALS  # of an entry: animal and number; of a question: animal
E = 64
BACK = 3
TRAINED_ON, LENGTHS = 16, (16, 24, 32, 40, 48, 56, 64)
FAR_BATCHES, FAR = 10, ((1, 15), (16, 23), (24, 31), (32, 63))  # batches of TEST_LISTS; distances
BATCH, STEPS, RATE, TEST_LISTS = 64, 1000, 3e-3, 3000
SEEDS = range(4)
RUNS = [  # scheme, layers, heads
    ("none", 1, 4),
    ("learned", 1, 4),
    ("sinusoidal", 1, 4),
    ("rotary", 1, 4),
    ("slow rotary", 1, 4),
    ("ALiBi", 1, 4),
    ("none", 2, 4),
    ("rotary", 2, 4),
    ("ALiBi", 2, 4),
    ("rotary", 1, 8),
    ("slow rotary", 1, 8),
]
BASES = {"rotary": 1e4, "slow rotary": 1e6}
IGNORE = -100  # what cross_entropy does not count


def make_lists(task: str, count: int, length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return tokens (count, length, FEATURES), answers, how many entries fit, and the distances."""
    animal = torch.randint(ANIMALS, (count, length))
    number = torch.randint(NUMBERS, (count, length))
    place = torch.arange(length)
    asks = torch.rand(count, length) < 0.5
    asks[:, -1] = True
    if task == "three back":
        asks = torch.zeros_like(asks)
        answer = number.roll(BACK, dims=1).masked_fill(place < BACK, IGNORE)
        entries, back = torch.full_like(number, 2), torch.full_like(number, BACK)
    else:
        same = (animal[:, :, None] == animal[:, None]) & ~asks[:, None] & (place < place[:, None])
        entries = same.sum(dim=-1)
        last = (same * (place + 1)).amax(dim=-1) - 1  # -1: there is none
        back = place - last
        answer = number.gather(1, last.clamp(min=0))
        answer = answer.masked_fill(~asks | (last < 0), IGNORE)
    listed, asked = ~asks[..., None], asks[..., None]
    parts = (F.one_hot(animal, ANIMALS) * listed, F.one_hot(number, NUMBERS) * listed)
    tokens = torch.cat([*parts, F.one_hot(animal, ANIMALS) * asked], dim=-1)
    return tokens.float(), answer, entries, back


class Attention(nn.Module):
    """Causal self-attention that may turn queries and keys, or add a bias to the scores."""

    def __init__(self, scheme: str, heads: int) -> None:
        super().__init__()
        self.scheme, self.heads = scheme, heads
        self.q_proj, self.k_proj = nn.Linear(E, E), nn.Linear(E, E)
        self.v_proj, self.out_proj = nn.Linear(E, E), nn.Linear(E, E)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output, (N, L, E)."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        query, key, value = (split_heads(project(x), self.heads) for project in projections)
        if base := BASES.get(self.scheme):
            query, key = rotate(query, base=base), rotate(key, base=base)
        mask = to_additive_mask(causal_mask(x.shape[1]))
        if self.scheme == "ALiBi":
            mask = mask + alibi_bias(self.heads, x.shape[1])
        heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out_proj(merge_heads(heads))


class Model(nn.Module):
    """Reads tokens, attends once or twice, and gives a logit for each number."""

    def __init__(self, scheme: str, layers: int, heads: int) -> None:
        super().__init__()
        self.scheme = scheme
        self.embed, self.read = nn.Linear(FEATURES, E), nn.Linear(E, NUMBERS)
        self.layers = nn.ModuleList([Attention(scheme, heads) for _ in range(layers)])
        if layers > 1:
            self.norms = nn.ModuleList([nn.LayerNorm(E) for _ in range(layers + 1)])
        if scheme == "learned":
            self.positions = nn.Parameter(torch.randn(max(LENGTHS), E))
        elif scheme == "sinusoidal":
            self.positions = sinusoidal_positions(max(LENGTHS), E)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits, (N, L, NUMBERS)."""
        x = self.embed(tokens)
        if hasattr(self, "positions"):
            x = x + self.positions[: x.shape[1]]
        if len(self.layers) == 1:
            return self.read(self.layers[0](x))
        for layer, norm in zip(self.layers, self.norms, strict=False):
            x = x + layer(norm(x))
        return self.read(self.norms[-1](x))


def train(task: str, scheme: str, layers: int, heads: int, seed: int) -> Model:
    """Return a model that was trained on lists of TRAINED_ON tokens."""
    torch.manual_seed(seed)
    model = Model(scheme, layers, heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        tokens, answer, *_ = make_lists(task, BATCH, TRAINED_ON)
        logits = model(tokens).flatten(0, 1)
        loss = F.cross_entropy(logits, answer.flatten(), ignore_index=IGNORE)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def test(model: Model, task: str, length: int) -> float:
    """Return the share of correct answers at the last token of new lists."""
    torch.manual_seed(1000 + length)  # the same lists for every model
    tokens, answer, entries, _ = make_lists(task, TEST_LISTS, length)
    right = model(tokens)[:, -1].argmax(dim=-1) == answer[:, -1]
    return right[entries[:, -1] >= 2].double().mean().item()


@torch.no_grad()
def test_far(model: Model, reads: int) -> list[tuple[str, int, str]]:
    """Return (distance, questions, accuracy) on long lists, read from the end."""
    torch.manual_seed(2000)  # the same lists for every model
    correct = of = 0
    for _ in range(FAR_BATCHES):
        tokens, answer, entries, back = make_lists("latest", TEST_LISTS, max(LENGTHS))
        graded = entries[:, -1] >= 2
        right = model(tokens[:, -reads:])[:, -1].argmax(dim=-1) == answer[:, -1]
        of = of + back[graded, -1].bincount(minlength=max(LENGTHS))
        correct = correct + back[graded & right, -1].bincount(minlength=max(LENGTHS))
    named = {f"{low}-{high}": slice(low, high + 1) for low, high in FAR} | {"all": slice(None)}
    sums = {name: (correct[part].sum(), of[part].sum()) for name, part in named.items()}
    return [(name, int(n), f"{right / n:.3f}") for name, (right, n) in sums.items()]


def main() -> None:
    """Train every scheme on both tasks, and write the accuracies and two of the models."""
    torch.set_num_threads(1)
    path = Path(__file__).with_name("train_short_test_long.csv")
    kept, far = {}, []
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "scheme", "layers", "heads", "seed", "tokens", "accuracy"])
        for task, run, seed in product(("latest", "three back"), RUNS, SEEDS):
            model = train(task, *run, seed)
            for length in LENGTHS:
                accuracy = f"{test(model, task, length):.3f}"
                writer.writerow([task, *run, seed, length, accuracy])
            file.flush()
            for reads in (max(LENGTHS), TRAINED_ON) if task == "latest" else ():
                far += [[*run, seed, reads, *row] for row in test_far(model, reads)]
            if task == "latest" and seed == 0 and run == ("rotary", 1, 4):
                named = model.state_dict().items()
                kept |= {f"rotary.{name.removeprefix('layers.0.')}": one for name, one in named}
            if task == "latest" and seed == 0 and run[0] == "learned":
                kept["learned.positions"] = model.positions.detach()
    with path.with_name("how_far_back.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow("scheme layers heads seed reads distance questions accuracy".split())
        writer.writerows(far)
    halves = {name: tensor.half().contiguous() for name, tensor in kept.items()}
    save_file(halves, path.with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
