"""A small language model that copies: it looks back to what followed the last time.

Its texts are made of loops of letters (``make_texts``). The trained model of lesson 12 and its runs
were made by ``data/make_looking_back.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab.checks import (
    check_exact_ndim,
    check_list,
    check_probability,
    check_size,
    check_type,
    shape,
    short,
)
from attnlab.display.texts import check_text
from attnlab.layers.cache import KeyValueCache
from attnlab.layers.modules import MultiHeadAttention
from attnlab.models.store import load_model, load_tensors

SYMBOLS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ|"  # the last one is where the needle jumps
BAR = SYMBOLS.index("|")
LENGTH = 32  # tokens that the model can read


class Texts(NamedTuple):
    """Loops of letters that are played again and again.

    Attributes
    ----------
    tokens : Tensor of int64, shape (N, LENGTH + 1)
        Places in ``SYMBOLS``.
    known : Tensor of bool, shape (N, LENGTH)
        Whether the token after this one can be known: it is a letter, and the same letter followed
        this one before.
    """

    tokens: Tensor
    known: Tensor


class Guesses(NamedTuple):
    """What the model returns.

    Attributes
    ----------
    logits : Tensor, shape (N, L, symbols)
        For each token, one number for every symbol that may come next.
    weights : Tensor, shape (layers, N, H, L, S)
        The attention weights of every layer; S is L without a cache.
    """

    logits: Tensor
    weights: Tensor


class LookingBack(nn.Module):
    """Layers of causal attention on a residual stream, and nothing else.

    Parameters
    ----------
    num_layers : int
        How many layers.
    embed_dim : int
        Features of a token.
    num_heads : int
        Heads of each layer; must divide ``embed_dim``.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``num_heads`` does not divide ``embed_dim``.

    See Also
    --------
    load_looking_back : the trained model of lesson 12.
    torch.nn.TransformerEncoderLayer : a layer that has an MLP as well.

    Examples
    --------
    >>> logits, weights = LookingBack()(torch.zeros(5, 32, dtype=torch.long))
    >>> logits.shape, weights.shape
    (torch.Size([5, 32, 27]), torch.Size([2, 5, 1, 32, 32]))
    """

    def __init__(self, num_layers: int = 2, embed_dim: int = 64, num_heads: int = 1) -> None:
        num_layers = check_size("num_layers", num_layers, at_least=1)
        embed_dim = check_size("embed_dim", embed_dim, at_least=1)
        super().__init__()
        layers = [MultiHeadAttention(embed_dim, num_heads, bias=False) for _ in range(num_layers)]
        self.symbol = nn.Embedding(len(SYMBOLS), embed_dim)
        self.position = nn.Embedding(LENGTH, embed_dim)
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in layers)
        self.last_norm = nn.LayerNorm(embed_dim)
        self.guess = nn.Linear(embed_dim, len(SYMBOLS))

    def forward(self, tokens: Tensor, caches: Sequence[KeyValueCache] | None = None) -> Guesses:
        """Return the guesses for every next token, and where every layer has looked.

        Parameters
        ----------
        tokens : Tensor of int64, shape (N, L)
            Places in ``SYMBOLS``; L is at most ``LENGTH``, with the tokens in the caches.
        caches : sequence of KeyValueCache, optional
            One for each layer. ``tokens`` come after those that the caches have read, and are
            appended to them.

        Returns
        -------
        Guesses
            ``logits`` (N, L, symbols) and ``weights`` (layers, N, H, L, S).

        Raises
        ------
        TypeError, ValueError
            If ``tokens`` is not such a tensor, or the caches do not fit. The caches then stay as
            they were.
        """
        _check_tokens(tokens)
        if caches is None:
            first, caches = 0, [None] * len(self.layers)
        else:
            self._check_caches(caches)
            first = caches[0].length
        end = first + tokens.shape[1]
        if end > LENGTH:
            after = f" after {first} in the caches" if first else ""
            raise ValueError(
                f"tokens must have at most {LENGTH} tokens (dimension 1), got {shape(tokens)}"
                f"{after}."
            )
        x = self.symbol(tokens) + self.position.weight[first:end]  # (N, L, E)
        weights = []
        for norm, layer, cache in zip(self.norms, self.layers, caches, strict=True):
            output, looks = layer(norm(x), is_causal=True, cache=cache)
            x = x + output  # (N, L, E)
            weights.append(looks)
        return Guesses(self.guess(self.last_norm(x)), torch.stack(weights))

    def _check_caches(self, caches: object) -> None:
        """Raise unless there is one cache for each layer, and all have read the same."""
        check_list("caches", caches, "a list of KeyValueCache")
        for cache in caches:
            check_type("caches", cache, KeyValueCache, "a list of KeyValueCache")
        needed, different = len(self.layers), len({id(cache) for cache in caches})
        if not len(caches) == different == needed:
            raise ValueError(
                f"caches must be {needed} different caches, one for each layer, "
                f"got {len(caches)} of which {different} are different."
            )
        if len({(cache.length, cache.window) for cache in caches}) > 1:
            raise ValueError(
                "caches must all have read the same tokens with the same window, "
                f"got lengths {[cache.length for cache in caches]}."
            )


def load_looking_back() -> LookingBack:
    """Return the trained model of lesson 12: two layers with one head each.

    Returns
    -------
    LookingBack
        In evaluation mode, its parameters without gradients. Every call makes a new one.

    See Also
    --------
    make_texts : texts like those it was trained on.

    Examples
    --------
    >>> model = load_looking_back()
    >>> logits, _ = model(to_tokens("KQZBMTAR|QZ")[None])
    >>> SYMBOLS[logits[0, -1].argmax()]
    'B'
    """
    stored = load_tensors("looking_back.safetensors").items()
    return load_model(LookingBack, {name: weight.float() for name, weight in stored})


def make_texts(count: int, *, shortest: int = 8, longest: int = 15, jump: float = 0.25) -> Texts:
    """Return random texts: a loop of different letters, in which the needle jumps.

    The loop is played once. From then on, every letter may be followed by a bar: the needle jumps,
    and the loop goes on from a random place.

    Parameters
    ----------
    count : int
        How many texts N.
    shortest, longest : int
        The loop of each text has a random number of letters within these bounds.
    jump : float
        The probability of a bar, where there is none just before.

    Returns
    -------
    Texts
        ``tokens`` (N, LENGTH + 1) and ``known`` (N, LENGTH), from torch's random numbers.

    Raises
    ------
    TypeError, ValueError
        If a size is not an integer from 1 to 26, ``longest`` is less than ``shortest``, or ``jump``
        is not a probability.

    See Also
    --------
    followers : the tokens at which the next letter can be found.

    Examples
    --------
    >>> _ = torch.manual_seed(1)
    >>> to_text(make_texts(1, shortest=8, longest=8).tokens[0])
    'DUAWMTXFDUAWMTXFD|X|TXF|WMTXFD|XF'
    """
    count = check_size("count", count, at_least=1)
    shortest = check_size("shortest", shortest, at_least=1, at_most=BAR)
    longest = check_size("longest", longest, at_least=1, at_most=BAR)
    if longest < shortest:
        raise ValueError(f"shortest must be at most longest, got {shortest} and {longest}.")
    check_probability("jump", jump)
    period = torch.randint(shortest, longest + 1, (count, 1))
    letters = torch.rand(count, BAR).argsort(dim=-1, stable=True)  # (N, 26), all different
    bar = (torch.rand(count, LENGTH + 1) < jump) & (torch.arange(LENGTH + 1) >= period)
    bar[:, 1:] &= ~bar[:, :-1]
    far = (torch.rand(count, LENGTH + 1) * period).long() * bar
    at = ((~bar).cumsum(dim=-1) - 1 + far.cumsum(dim=-1)) % period  # place in the loop
    tokens = letters.gather(1, at).masked_fill(bar, BAR)
    known = followers(tokens[:, :-1]).any(dim=-1) & (tokens[:, 1:] != BAR)
    return Texts(tokens, known)


def followers(tokens: Tensor) -> Tensor:
    """Return which letters have followed an earlier copy of each letter.

    Parameters
    ----------
    tokens : Tensor of int64, shape (N, L)
        Places in ``SYMBOLS``.

    Returns
    -------
    Tensor of bool, shape (N, L, L)
        True at (i, j) where token j is a letter, comes directly after a copy of the letter at i,
        and is not later than i.

    Raises
    ------
    TypeError, ValueError
        If ``tokens`` is not such a tensor.

    See Also
    --------
    make_texts : the texts in which they are looked for.

    Examples
    --------
    >>> followers(to_tokens("AB|A")[None]).nonzero().tolist()  # at 3, the B at 1
    [[0, 3, 1]]
    """
    _check_tokens(tokens)
    before = torch.full_like(tokens, -1)
    before[:, 1:] = tokens[:, :-1]
    letter = tokens != BAR
    return (letter[:, :, None] & letter[:, None] & (before[:, None] == tokens[:, :, None])).tril()


def share_correct(model: nn.Module, texts: Texts) -> float:
    """Return how often the largest logit is that of the next letter, where it can be known.

    Parameters
    ----------
    model : torch.nn.Module
        It returns ``logits`` and something else for tokens (N, LENGTH).
    texts : Texts
        From ``make_texts``.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    TypeError
        If the arguments are of another type.

    See Also
    --------
    make_texts : new texts.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> share_correct(load_looking_back(), make_texts(200)) > 0.98
    True
    """
    check_type("model", model, nn.Module, "a model")
    check_type("texts", texts, Texts, "Texts from make_texts")
    tokens, known = texts
    with torch.no_grad():
        logits, _ = model(tokens[:, :-1])
    return (logits.argmax(dim=-1) == tokens[:, 1:])[known].float().mean().item()


def to_tokens(text: str) -> Tensor:
    """Return the places in ``SYMBOLS`` of the letters and bars of a text: (L,).

    Parameters
    ----------
    text : str
        Capital letters and bars.

    Returns
    -------
    Tensor of int64, shape (L,)
        One place for each.

    Raises
    ------
    TypeError, ValueError
        If the text is not a string, is empty, or has another character.

    See Also
    --------
    to_text : the inverse.
    """
    check_text("text", text)
    if set(text) - set(SYMBOLS):
        raise ValueError(f"text must have the letters A to Z and bars only, got {short(text)}.")
    return torch.tensor([SYMBOLS.index(symbol) for symbol in text])


def to_text(tokens: Tensor) -> str:
    """Return the letters and bars of some tokens as a text.

    Parameters
    ----------
    tokens : Tensor of int64, shape (L,)
        Places in ``SYMBOLS``.

    Returns
    -------
    str
        One character for each.

    Raises
    ------
    TypeError, ValueError
        If ``tokens`` is not such a tensor.

    See Also
    --------
    to_tokens : the inverse.
    """
    check_exact_ndim(
        "tokens", tokens, "(L,)", ndim=1, fix="for one of several texts use tokens[0]."
    )
    _check_places(tokens)
    return "".join(SYMBOLS[token] for token in tokens.tolist())


def _check_tokens(tokens: Tensor) -> None:
    check_exact_ndim("tokens", tokens, "(N, L)", ndim=2, fix="for one text use tokens[None].")
    _check_places(tokens)


def _check_places(tokens: Tensor) -> None:
    if tokens.dtype != torch.long:
        raise TypeError(f"tokens must be torch.int64, got {tokens.dtype}.")
    if not tokens.numel() or tokens.min() < 0 or tokens.max() > BAR:
        raise ValueError(f"tokens must hold places from 0 to {BAR}, got {short(tokens)}.")
