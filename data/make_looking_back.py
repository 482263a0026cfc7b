"""Train the models of lesson 12: makes looking_back.safetensors and looking_back.csv.

Run by hand from the root of the project, about fifteen minutes of one core:
``python data/make_looking_back.py``.

All models guess the next letter of texts of ``attnlab.models.looking_back``, in batches of 64 new
texts, with Adam. ``looking_back.safetensors`` holds the first model of two layers after its
training, and what it looks at in one text while it is trained. ``looking_back.csv`` holds the
scores of several models on 500 new texts. Another CPU or version of torch moves the numbers a
little.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from attnlab.models.looking_back import (
    LookingBack,
    Texts,
    followers,
    make_texts,
    share_correct,
    to_tokens,
)

BATCH, TEST_SEED = 64, 10**6
TASKS = {  # what make_texts is told: the lesson's texts, two easier kinds
    "jumps": {},
    "no jumps": {"jump": 0.0},
    "no jumps, 12 letters": {"jump": 0.0, "shortest": 12, "longest": 12},
}
TWO = {"num_layers": 2, "embed_dim": 64, "num_heads": 1}
TWO_STEPS, TWO_RATE, TWO_EVERY, TWO_SEEDS = 300, 0.005, 10, range(6)
WIDE_STEPS, WIDE_EVERY, WIDE_SEEDS = 1000, 100, range(4)
WIDE_HEADS, WIDE_RATES, WIDTH = (1, 4, 22), (0.003, 0.01), 88  # not fewer parameters than TWO has
WATCHED = "KQZBMTAR|QZB|TARKQ|MTA"  # the text of the explorer
STOPS = (0, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300)


def train(seed: int, steps: int, rate: float, task: dict, **sizes: int) -> Iterator[LookingBack]:
    """Yield a model before every step of its training, and after the last one."""
    torch.manual_seed(seed)
    model = LookingBack(**sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        yield model
        tokens, known = make_texts(BATCH, **task)
        logits, _ = model(tokens[:, :-1])
        loss = F.cross_entropy(logits[known], tokens[:, 1:][known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    yield model


def test_texts(task: dict) -> Texts:
    """Return 500 new texts; the random numbers of the training stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(TEST_SEED)
        return make_texts(500, **task)


def previous_score(weights: Tensor) -> Tensor:
    """Return the mean weight on the token before: (..., N, H, L, L) -> (..., H)."""
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(dim=(-3, -1))


def follower_score(weights: Tensor, texts: Texts) -> Tensor:
    """Return the mean weight on followers, where the next letter can be known: (..., H)."""
    marked = followers(texts.tokens[:, :-1])[:, None]  # (N, 1, L, L)
    on_them = (weights * marked).sum(dim=-1)  # (..., N, H, L)
    return (on_them * texts.known[:, None]).sum(dim=(-3, -1)) / texts.known.sum()


@torch.no_grad()
def measure(model: LookingBack, texts: Texts) -> dict[str, float]:
    """Return the share of correct guesses and the largest scores of any head."""
    weights = model(texts.tokens[:, :-1]).weights
    return {
        "correct": round(share_correct(model, texts), 4),
        "previous": round(previous_score(weights).max().item(), 4),
        "follower": round(follower_score(weights, texts).max().item(), 4),
    }


def race(task: str, seed: int, steps: int, every: int, rate: float, **sizes: int) -> list[dict]:
    """Train one model and return its rows."""
    texts, rows = test_texts(TASKS[task]), []
    about = {"task": task, **sizes, "rate": rate, "seed": seed}
    for step, model in enumerate(train(seed, steps, rate, TASKS[task], **sizes)):
        if step % every == 0:
            rows.append({**about, "step": step, **measure(model, texts)})
    print(rows[-1], flush=True)
    return rows


def one_layer(heads: int) -> dict[str, int]:
    """Return the sizes of one layer with as many parameters as two layers have."""
    return {"num_layers": 1, "embed_dim": WIDTH, "num_heads": heads}


def watch() -> dict[str, torch.Tensor]:
    """Return the first model of two layers, and what it looks at while it is trained."""
    tokens, looks, chances = to_tokens(WATCHED)[None], [], []
    for step, model in enumerate(train(0, TWO_STEPS, TWO_RATE, TASKS["jumps"], **TWO)):
        if step in STOPS:
            with torch.no_grad():
                logits, weights = model(tokens)
            looks.append(weights[:, 0, 0])  # (layers, L, L)
            chances.append(logits[0].softmax(dim=-1))  # (L, symbols)
    watched = {"watched.weights": torch.stack(looks), "watched.chances": torch.stack(chances)}
    stored = {**model.state_dict(), **watched}
    return {name: one.half().contiguous() for name, one in stored.items()}


def main() -> None:
    """Train, and write both files beside this script."""
    torch.set_num_threads(1)
    folder = Path(__file__).parent
    save_file(watch(), folder / "looking_back.safetensors")
    rows = []
    for seed in TWO_SEEDS:
        rows += race("jumps", seed, TWO_STEPS, TWO_EVERY, TWO_RATE, **TWO)
    for seed in WIDE_SEEDS:
        for heads in WIDE_HEADS:
            for rate in WIDE_RATES:
                rows += race("jumps", seed, WIDE_STEPS, WIDE_EVERY, rate, **one_layer(heads))
        for task in ("no jumps", "no jumps, 12 letters"):
            rows += race(task, seed, WIDE_STEPS, WIDE_EVERY, 0.01, **one_layer(4))
    with (folder / "looking_back.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
