"""Train the eight toy translators of lesson 04: makes toy_translator.safetensors.

Run by hand from the root of the project, a few minutes of one core:
``python data/make_toy_translator.py``.

Each translator sees the same 1,500 batches of 64 sentences of a toy grammar
(``attnlab.models.translator``) in the same order; only the random numbers with which it starts are
its own. It is trained to write the correct French word after the correct French words; nothing
tells it where to look. Another CPU or version of torch moves the numbers a little.
"""

from __future__ import annotations

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
    TRANSLATORS,
    Sentence,
    Translator,
    make_sentences,
)

STEPS, BATCH, RATE = 1500, 64, 0.003
TEST_COUNT = 300
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
        english, before, target, mask = make_batch(make_sentences(BATCH, seed=step))
        scores, _ = translator._steps(english, before, mask)
        loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=FILLER)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return start, translator.eval()


def unseen() -> list[Sentence]:
    """Return sentences that no translator was trained on."""
    seen = {s.english for seed in range(STEPS) for s in make_sentences(BATCH, seed=seed)}
    new = make_sentences(4 * TEST_COUNT, seed=STEPS)
    return [sentence for sentence in new if sentence.english not in seen][:TEST_COUNT]


def report(translator: Translator, sentences: list[Sentence]) -> str:
    """Return how many sentences are correct, and where the largest weight of a word lies."""
    correct, hits = 0, []
    for english, french, partner in sentences:
        translation = translator.translate(english, french=french)
        correct += translation.french == [*french.split(), END]
        hits.append(translation.weights[:-1].argmax(dim=-1) == partner)
    share = torch.cat(hits).float().mean()
    return f"{correct} of {len(sentences)} correct, {share:.3f} of the words on their partner"


def main() -> None:
    """Train, and write the parameters beside this script."""
    torch.set_num_threads(1)
    stored, sentences = {}, unseen()
    for seed in range(TRANSLATORS):
        start, translator = train(seed)
        parts = {f"{seed}": translator.half().state_dict()}
        if seed == 0:
            parts["untrained"] = start
        for part, tensors in parts.items():
            stored |= {f"{part}.{key}": tensor.half() for key, tensor in tensors.items()}
        print(seed, report(translator.float(), sentences), flush=True)
    stored = {key: tensor.contiguous() for key, tensor in stored.items()}
    save_file(stored, Path(__file__).with_name("toy_translator.safetensors"))


if __name__ == "__main__":
    main()
