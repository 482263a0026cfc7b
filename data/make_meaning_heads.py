"""Change the heads of the encoder for lesson 14, one at a time: makes meaning_heads.csv.

Run by hand from the root of the project, about three minutes of one core:
``python data/make_meaning_heads.py``.

For each of nine words, the sentences are those of ``bank_sentences.csv`` or the open ones of
``two_meanings.csv``. After each change of the heads, all vectors are read again. Each is compared
with the two means of the *other* sentences, read with the same change.
"""

import csv
from itertools import groupby

import torch
from torch import Tensor

from attnlab import data_path
from attnlab.meanings import leans
from attnlab.pretrained import PretrainedEncoder, load_encoder

LAYERS, HEADS = 6, 12
Rows = list[dict[str, str]]


def words() -> dict[str, Rows]:
    """Return the rows of each word; the sentences that are set aside are left out."""
    bank, others = (
        list(csv.DictReader(data_path(name).open(encoding="utf-8")))
        for name in ("bank_sentences.csv", "two_meanings.csv")
    )
    seen = [row for row in others if row["part"] == "open"]
    return {"bank": bank} | {
        word: list(rows) for word, rows in groupby(seen, lambda row: row["word"])
    }


def changes() -> dict[str, tuple[Tensor, Tensor]]:
    """Return which heads are removed and which average, bool (V, LAYERS, HEADS), for each kind."""
    one = torch.eye(LAYERS * HEADS, dtype=torch.bool).view(-1, LAYERS, HEADS)
    none = torch.zeros_like(one)
    return {
        "removed": (one, none),
        "averaged": (none, one),
        "others removed": (~one, none),
        "others averaged": (none, ~one),
        "nothing": (none[:1], none[:1]),
        "all removed": (~none[:1], none[:1]),
        "all averaged": (none[:1], ~none[:1]),
    }


def last_vectors(
    encoder: PretrainedEncoder, word: str, sentence: str, removed: Tensor, average: Tensor
) -> Tensor:
    """Return the word's vector after the last layer, once for each of V changes: (V, 384)."""
    tokens = encoder.tokens(sentence)
    x = encoder.embed(tokens).expand(len(removed), -1, -1)  # (V, L, 384)
    for number, layer in enumerate(encoder.layers):
        off, even = removed[:, number, :, None, None], average[:, number, :, None, None]

        def edit(weights: Tensor, off: Tensor = off, even: Tensor = even) -> Tensor:
            uniform = torch.full_like(weights, 1 / weights.shape[-1])
            return torch.where(even, uniform, weights) * ~off

        x, _ = layer(x, edit=edit)
    return x[:, tokens.index(word)]


def main() -> None:
    """Write the table."""
    torch.set_num_threads(1)
    encoder = load_encoder()
    table = [["word", "change", "layer", "head", "sentences", "right", "lean"]]
    for word, rows in words().items():
        is_first = torch.tensor([row["meaning"] == rows[0]["meaning"] for row in rows])
        sign = 2.0 * is_first - 1
        for change, (removed, average) in changes().items():
            found = [last_vectors(encoder, word, row["sentence"], removed, average) for row in rows]
            vectors = torch.stack(found).transpose(0, 1)  # (V, N, 384)
            for number, one in enumerate(vectors):
                to_side = leans(one[:, None], is_first)[:, 0] * sign
                place = divmod(number, HEADS) if len(vectors) > 1 else ("", "")
                right = int((to_side > 0).sum())
                table.append(
                    [word, change, *place, len(rows), right, f"{to_side.mean().item():.5f}"]
                )
    with (
        data_path("README.md")
        .with_name("meaning_heads.csv")
        .open("w", encoding="utf-8", newline="") as file
    ):
        csv.writer(file, lineterminator="\n").writerows(table)


if __name__ == "__main__":
    with torch.no_grad():
        main()
