"""Train a next-token model with and without a causal mask: makes peek_at_the_future.csv.

Run by hand, 20 seconds on one core:  python data/make_peek_at_the_future.py

The language has 8 words. A word is followed by one of three words, drawn with probabilities 0.6,
0.3 and 0.1: nobody can guess better than that. Two losses are written down, both on new sentences:
that of training, where the whole sentence lies before the model, and that of use, where it gets the
words so far and no more. Another CPU or version of torch moves them a little.
"""

import csv
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from attnlab import SelfAttention

WORDS, LENGTH, WIDTH, BATCH, STEPS, EVERY = 8, 10, 32, 64, 300, 10
CHANCES = torch.tensor([0.6, 0.3, 0.1])
FLOOR = float(torch.special.entr(CHANCES).sum())  # nats: the loss of whoever knows the language
SEEDS = range(4)


def sentences(count: int, generator: torch.Generator) -> Tensor:
    """Return (count, LENGTH + 1) words; word w is followed by w + 1, w + 3 or w + 5, modulo 8."""
    steps = torch.multinomial(CHANCES, count * LENGTH, replacement=True, generator=generator)
    first = torch.randint(WORDS, (count, 1), generator=generator)
    moves = 1 + 2 * steps.view(count, LENGTH)
    return torch.cat([first, moves], dim=1).cumsum(dim=1) % WORDS


class NextWord(nn.Module):
    """Words and places in, one attention layer, the score of every next word out."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.word, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention = SelfAttention(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """Return (N, L, WORDS) for words (N, L)."""
        x = self.word(words) + self.place(torch.arange(words.shape[1]))
        return self.out(x + self.attention(x, is_causal=self.causal).output)


def loss_of(model: NextWord, words: Tensor) -> Tensor:
    """Return the loss with the whole sentence before the model, as in training."""
    scores = model(words[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())


@torch.no_grad()
def loss_in_use(model: NextWord, words: Tensor) -> float:
    """Return the loss when every word is guessed from the words before it and nothing else."""
    losses = [
        nn.functional.cross_entropy(model(words[:, :t])[:, -1], words[:, t])
        for t in range(1, LENGTH + 1)
    ]
    return float(torch.stack(losses).mean())


def race(causal: bool, seed: int) -> list[dict[str, object]]:
    """Train one model and return its losses on new sentences."""
    torch.manual_seed(seed)
    model = NextWord(causal)
    generator = torch.Generator().manual_seed(seed)
    new = sentences(500, torch.Generator().manual_seed(1000 + seed))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    rows = []
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                training = loss_of(model, new).item()
            losses = {"training": round(training, 4), "use": round(loss_in_use(model, new), 4)}
            rows.append({"causal": int(causal), "seed": seed, "step": step, **losses})
        optimizer.zero_grad()
        loss_of(model, sentences(BATCH, generator)).backward()
        optimizer.step()
    return rows


def main() -> None:
    """Write the table."""
    torch.set_num_threads(1)
    rows = [row for causal in (True, False) for seed in SEEDS for row in race(causal, seed)]
    path = Path(__file__).with_name("peek_at_the_future.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    ends = [row for row in rows if row["step"] == STEPS]
    print(f"wrote {path.name}; floor {FLOOR:.3f}, guessing {math.log(WORDS):.3f}", *ends, sep="\n")


if __name__ == "__main__":
    main()
