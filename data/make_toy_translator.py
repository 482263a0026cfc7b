"""Train the toy translators of lesson 04: makes toy_translator.safetensors.

Run by hand from the root of the project, a few minutes of one core:
``python data/make_toy_translator.py``. With ``--compare`` it trains five translators instead,
writes nothing, and prints how they agree.

A translator sees 1,500 batches of 64 new sentences of a toy grammar
(``attnlab.models.translator``). It is trained to write the correct French word after the correct
French words; nothing tells it where to look. Another CPU or version of torch moves the numbers a
little.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from attnlab.models.translator import (
    END,
    ENGLISH,
    FRENCH,
    START,
    Sentence,
    Translator,
    make_sentences,
)

STEPS, BATCH, RATE = 1500, 64, 0.003
SEEDS = {"first": 0, "second": 1, "third": 3}
TEST_SEED, TEST_COUNT = 10**6, 300
FILLER = -100  # what cross_entropy leaves out


def make_batch(sentences: list[Sentence]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return English (N, S), the words before, the words to write (N, L) and a mask (N, 1, S)."""
    texts = [(english.split(), french.split()) for english, french, _ in sentences]
    S = max(len(english) for english, _ in texts)
    L = max(len(french) for _, french in texts) + 1
    english = torch.zeros(len(texts), S, dtype=torch.long)
    before = torch.zeros(len(texts), L, dtype=torch.long)
    target = torch.full((len(texts), L), FILLER)
    for row, (source, french) in enumerate(texts):
        english[row, : len(source)] = torch.tensor([ENGLISH.index(word) for word in source])
        written = torch.tensor([FRENCH.index(word) for word in (START, *french, END)])
        before[row, : len(french) + 1] = written[:-1]
        target[row, : len(french) + 1] = written[1:]
    lengths = torch.tensor([len(source) for source, _ in texts])
    return english, before, target, (torch.arange(S) < lengths[:, None])[:, None]


def train(seed: int) -> tuple[dict[str, Tensor], Translator]:
    """Return the parameters before the training, and the translator after it."""
    torch.manual_seed(seed)
    translator = Translator()
    start = {name: one.clone() for name, one in translator.state_dict().items()}
    optimizer = torch.optim.Adam(translator.parameters(), lr=RATE)
    for step in range(STEPS):
        english, before, target, mask = make_batch(make_sentences(BATCH, seed=seed * STEPS + step))
        scores, _ = translator._steps(english, before, mask)
        loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=FILLER)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return start, translator.eval()


def unseen() -> list[Sentence]:
    """Return sentences that no translator was trained on."""
    last = (max(SEEDS.values()) + 1) * STEPS
    seen = {s.english for seed in range(last) for s in make_sentences(BATCH, seed=seed)}
    new, found = (make_sentences(1, seed=seed)[0] for seed in count(TEST_SEED)), []
    while len(found) < TEST_COUNT:
        one = next(new)
        if one.english not in seen:
            found.append(one)
    return found


def report(translator: Translator, sentences: list[Sentence]) -> str:
    """Return how many sentences are correct, and where the largest weight of a word lies."""
    correct, hits = 0, []
    for english, french, partner in sentences:
        found = translator.translate(english, french=french)
        correct += found.french == [*french.split(), END]
        hits.append(found.weights[:-1].argmax(dim=-1) == partner)
    share = torch.cat(hits).float().mean()
    return f"{correct} of {len(sentences)} correct, {share:.3f} of the words on their partner"


def main() -> None:
    """Train, and write the parameters beside this script."""
    torch.set_num_threads(1)
    if "--compare" in sys.argv:
        for seed in range(5):
            print(seed, report(train(seed)[1], make_sentences(TEST_COUNT, seed=TEST_SEED)))
        return
    stored, sentences = {}, unseen()
    for name, seed in SEEDS.items():
        start, translator = train(seed)
        parts = {name: translator.half().state_dict()}
        if name == "first":
            parts["untrained"] = start
        for part, tensors in parts.items():
            stored |= {f"{part}.{key}": one.half().contiguous() for key, one in tensors.items()}
        print(name, report(translator.float(), sentences))
    save_file(stored, Path(__file__).with_name("toy_translator.safetensors"))


if __name__ == "__main__":
    main()
