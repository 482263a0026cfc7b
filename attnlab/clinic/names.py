"""What arguments and attributes are called: every list of names of the clinic is here."""

from __future__ import annotations

import functools
import inspect
import re
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.sandbox import call as call_safely

# --- attributes of a layer, the likeliest first ---------------------------------------------------

WIDTHS = (
    "embed_dim d_model dim embed_size emb_dim emb_size embedding_dim model_dim n_embd n_embed "
    "d_embed d_emb embed hidden_size hidden_dim d_in in_dim input_dim input_size in_features "
    "num_hiddens features channels width size D E"
).split()
HEADS = "num_heads n_heads heads n_head nhead num_attention_heads nheads h H".split()
LENGTHS = "context_length block_size max_len max_length seq_len max_seq_len n_ctx length".split()

# --- arguments: the first pattern that fits a name in lower case tells its role -------------------

SIDE_NAMES = {"query": r"q|quer(y|ies|ys)", "key": r"k|keys?", "value": r"v|values?|vals?"}
_DRESS = "in|inputs?|states?|seq|tokens?|layer|proj|vecs?|vectors?|heads?|mat|matrix|tensor|x"
_COUNTED = "valid|real|seq|sequence|src|key|k|kv|input|x|memory|enc"
_PATTERNS = {
    "cache": r"past|cache|layer_state",
    "causal": r"causal|autoregressive|look_?ahead|(mask|hide)_future|^unidirectional$",
    "position": r"pos(s|_|$)|position|rope|rotary|freqs?|^(cos|sin)|alibi|slopes|^rel_",
    "padding": r"pad",
    "dropout": r"drop|^p$",
    "mask": r"mask|bias|^(allowed|visible|may_attend|keep|blocked)$",
    "scale": r"scal(e|ing)|factor|temperature|^temp$|^tau$",
    "size": r"^(max|n|num|tgt|seq|query|q|context)_?(seq_)?(len|length|size|ctx|tokens)$|^(l|n)$",
    "lengths": rf"^(({_COUNTED})_?)*(lens|lengths?|len)$",
    "heads": r"^(num_|n_?)?(attention_)?heads?$|^nhead$|^h$",
    "width": r"^([de]|d_?(k|head|model|h|qk)|(head|embed|emb|hidden)_?(dim|size)|dim(_k|_head)?)$",
    "memory": r"context|memory|enc|source|^src|^(x_?)?kv|key_?value|other|cond|cross|^y$|x_?2",
    **{side: rf"^(x_?)?({names})(_?({_DRESS}))?$" for side, names in SIDE_NAMES.items()},
    "flag": r"^(need|output|return|use|is|with)_|^(training|train|deterministic|verbose|debug)$",
    "x": r"^(x|inputs?|hidden(_states?)?|tokens?|emb(ed)?(dings?)?|seq(uence)?s?|tgt|trg|target)$",
}
OF_TORCH = {**dict.fromkeys(SIDE_NAMES), "attn_mask": None, "dropout_p": 0.0, "is_causal": False}
ROLES = tuple((role, re.compile(pattern)) for role, pattern in _PATTERNS.items())

# --- functions and layers that say what they are for by their own name ----------------------------

CAUSAL_NAME = re.compile(
    r"(?<!non)(?<!non_)(?<!not_)(?<!\ba)(causal|autoregress|no_peek)", re.IGNORECASE
)
PERHAPS_CAUSAL = re.compile(r"(?<!encoder)(?<!encoder_)decoder|look_?ahead", re.IGNORECASE)


_OF_SIDES = "q|k|v|o|query|queries|keys?|values?|out|output"
PROJECTION = re.compile(  # the name of a matrix that every attention has a use for
    rf"(^|[._])(w|to|fc|in|lin|linear|proj)?_?({_OF_SIDES})s?(_?(proj(ection)?|lin(ear)?|net|w))?(\.|$)",
    re.IGNORECASE,
)
ROTARY_NAME = re.compile(r"rotary|rope(?![a-z])", re.IGNORECASE)


class Argument(NamedTuple):
    """One argument of a callable, as the callable spells it, and what its name tells.

    A role is a key of ``_PATTERNS`` or ``"unknown"``: ``"padding"`` is a mask of padded tokens,
    ``"causal"`` a switch, ``"size"`` a number of tokens, ``"width"`` one of features, ``"flag"``
    some other switch.
    """

    name: str
    role: str
    required: bool
    default: object = None  # also where it has none
    by_place: bool = True  # it can be given without its name


def role_of(name: str) -> str:
    """Return the role that a name tells, ``"unknown"`` if none."""
    low = name.lower()
    return next((role for role, pattern in ROLES if pattern.search(low)), "unknown")


def arguments(target: object) -> list[Argument] | None:
    """Return the arguments of a callable with their roles; None where Python does not know them.

    What a partial gives already is left out, and ``*args`` and ``**kwargs`` are.
    """
    given, fixed = target, 0
    taken: set[str] = set()
    while isinstance(given, functools.partial):
        taken |= given.keywords.keys()
        if given.func is F.scaled_dot_product_attention and given.keywords.get("is_causal"):
            taken.add("attn_mask")  # it takes one of the two
        fixed += len(given.args)
        given = given.func
    if given is F.scaled_dot_product_attention:  # in compiled code, of which Python knows none
        known = [Argument(n, role_of(n), n in SIDE_NAMES, value) for n, value in OF_TORCH.items()]
    else:
        known = call_safely(
            _declared, given.forward if isinstance(given, nn.Module) else given
        ).value
    return None if known is None else [arg for arg in known[fixed:] if arg.name not in taken]


def numbers_of(target: object) -> list[tuple[str, float]]:
    """Return the positive numbers that a callable got from outside, by name.

    Defaults, what a partial gives, what is around a function, and attributes of a module.
    """
    given: dict[str, object] = {arg.name: arg.default for arg in arguments(target) or []}
    while isinstance(target, functools.partial):
        given |= target.keywords
        target = target.func
    if isinstance(target, nn.Module):
        for part in target.modules():
            given |= {**vars(part), **dict(part.named_buffers())}
    around = call_safely(inspect.getclosurevars, target).value
    given |= {**around.nonlocals, **around.globals} if around else {}
    numbers = []
    for name, value in given.items():
        single = isinstance(value, Tensor) and value.numel() == 1
        counts = isinstance(value, bool) or role_of(name) in ("heads", "size", "dropout", "flag")
        number = float(value) if not counts and (single or isinstance(value, int | float)) else 0.0
        numbers += [(name, number)] if number > 0 and number != 1 else []
    return numbers


def _declared(function: object) -> list[Argument]:
    """Return the arguments that ``inspect.signature`` knows."""
    declared = []
    for part in inspect.signature(function).parameters.values():
        default = None if part.default is part.empty else part.default
        if part.kind not in (part.VAR_POSITIONAL, part.VAR_KEYWORD):
            role, by_place = _role(part.name, default), part.kind != part.KEYWORD_ONLY
            required = part.default is part.empty
            declared.append(Argument(part.name, role, required, default, by_place))
    return declared


def _role(name: str, default: object) -> str:
    """Return the role of an argument; one whose default is True or False is a switch."""
    role = role_of(name)
    if isinstance(default, bool):
        return role if role in ("causal", "cache") else "flag"
    return "mask" if role == "causal" and "mask" in name.lower() else role
