"""Train the models of lesson 12: makes looking_back.safetensors and looking_back.csv.

Run by hand from the root of the project, about fifteen minutes of one core:
``python data/make_looking_back.py``.

All models guess the next letter of texts of ``attnlab.models.looking_back``, in batches of 64 new
texts, with Adam. ``looking_back.safetensors`` holds the first model of two layers after its
training. ``looking_back.csv`` holds the
scores of several models on 500 new texts, ``notes_spread.csv`` where six models of two layers look
at each step of their training, and ``one_look.csv`` how models of one layer guess after it. Another
CPU or version of torch moves the numbers a little.
"""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from attnlab.models.looking_back import (
    BAR,
    LENGTH,
    SYMBOLS,
    LookingBack,
    Texts,
    followers,
    make_texts,
    share_correct,
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


def spread(seed: int) -> Iterator[dict]:
    """Yield the weights of both layers by position, while a model of two layers is trained.

    ``note`` is the mean weight of layer 0, at this position, on the token before. ``search`` is the
    mean weight of layer 1 on the letters that have followed, where the first of them stands here.
    """
    texts = test_texts(TASKS["jumps"])
    tokens = texts.tokens[:, :-1]
    marked = followers(tokens)  # (N, L, L)
    answer = marked.int().argmax(dim=-1)  # (N, L): the first that is marked
    for step, model in enumerate(train(seed, TWO_STEPS, TWO_RATE, TASKS["jumps"], **TWO)):
        if step % TWO_EVERY:
            continue
        with torch.no_grad():
            first, second = model(tokens).weights[:, :, 0]  # (N, L, L) each
        notes = first.diagonal(-1, dim1=1, dim2=2).mean(dim=0)  # (L - 1,)
        searches = (second * marked).sum(dim=-1)  # (N, L)
        for position in range(1, tokens.shape[1]):
            here = texts.known & (answer == position)
            row = {"seed": seed, "step": step, "position": position}
            row["note"] = round(notes[position - 1].item(), 4)
            yield row | {"search": round(searches[here].mean().item(), 4) if here.any() else ""}


def oldest(tokens: Tensor) -> Tensor:
    """Return, for each token, the letter whose last appearance up to there is furthest back."""
    played = F.one_hot(tokens, len(SYMBOLS))[..., :BAR]  # (N, L, 26)
    when = played * torch.arange(1, tokens.shape[1] + 1)[:, None]
    last = when.cummax(dim=1).values  # 0 where a letter has not been played
    return last.masked_fill(last == 0, LENGTH + 1).argmin(dim=-1)


def guesses(seed: int, heads: int, rate: float) -> dict:
    """Train a model of one layer and return how it guesses."""
    texts = test_texts(TASKS["jumps"])
    *_, model = train(seed, WIDE_STEPS, rate, TASKS["jumps"], **one_layer(heads))
    tokens, answers = texts.tokens[:, :-1], texts.tokens[:, 1:]
    with torch.no_grad():
        guess = model(tokens).logits.argmax(dim=-1)
    jumped = (tokens == BAR).cumsum(dim=1) > 0
    shares = {
        "correct": (guess == answers)[texts.known],
        "before_jump": (guess == answers)[texts.known & ~jumped],
        "after_jump": (guess == answers)[texts.known & jumped],
        "oldest": (guess == oldest(tokens))[texts.known],
        "rule_before_jump": (oldest(tokens) == answers)[texts.known & ~jumped],
        "rule_after_jump": (oldest(tokens) == answers)[texts.known & jumped],
    }
    shares = {name: round(share.float().mean().item(), 4) for name, share in shares.items()}
    row = {"num_heads": heads, "rate": rate, "seed": seed, **shares}
    print(row, flush=True)
    return row


def one_layer(heads: int) -> dict[str, int]:
    """Return the sizes of one layer with as many parameters as two layers have."""
    return {"num_layers": 1, "embed_dim": WIDTH, "num_heads": heads}


def write(name: str, rows: list[dict]) -> None:
    """Write rows beside this script."""
    with (Path(__file__).parent / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Train, and write the files beside this script."""
    torch.set_num_threads(1)
    *_, model = train(0, TWO_STEPS, TWO_RATE, TASKS["jumps"], **TWO)
    stored = {name: one.half().contiguous() for name, one in model.state_dict().items()}
    save_file(stored, Path(__file__).parent / "looking_back.safetensors")
    rows = []
    for seed in TWO_SEEDS:
        rows += race("jumps", seed, TWO_STEPS, TWO_EVERY, TWO_RATE, **TWO)
    for seed in WIDE_SEEDS:
        for heads in WIDE_HEADS:
            for rate in WIDE_RATES:
                rows += race("jumps", seed, WIDE_STEPS, WIDE_EVERY, rate, **one_layer(heads))
        for task in ("no jumps", "no jumps, 12 letters"):
            rows += race(task, seed, WIDE_STEPS, WIDE_EVERY, 0.01, **one_layer(4))
    write("looking_back.csv", rows)
    write("notes_spread.csv", [row for seed in TWO_SEEDS for row in spread(seed)])
    sizes = itertools.product(WIDE_SEEDS, WIDE_HEADS, WIDE_RATES)
    write("one_look.csv", [guesses(seed, heads, rate) for seed, heads, rate in sizes])


if __name__ == "__main__":
    main()
