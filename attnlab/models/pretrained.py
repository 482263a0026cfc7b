"""A trained model whose attention can be read: all-MiniLM-L6-v2, whole or its first layer alone.

Needs ``tokenizers`` and ``safetensors``; everything is read from the project's own files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import attention_scores, attention_weights
from attnlab.checks import (
    check_exact_ndim,
    check_list,
    check_same_kind,
    check_size,
    check_tensor,
    check_type,
    shape,
    short,
)
from attnlab.display.extra import lessons_extra
from attnlab.display.table import data_path
from attnlab.heads import merge_heads, split_heads
from attnlab.layers.modules import AttentionOutput, MultiHeadAttention
from attnlab.models.store import load_model, load_tensors

with lessons_extra():
    from tokenizers import Encoding, Tokenizer, models, normalizers, pre_tokenizers

FIRST, LAST, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
MARKERS = ("[PAD]", UNKNOWN, FIRST, LAST, "[MASK]")
EMBED_DIM, NUM_HEADS, NUM_LAYERS = 384, 12, 6
HIDDEN_DIM = 4 * EMBED_DIM  # between the two matrices of the feed-forward part
MAX_TOKENS = 512  # the model has a vector for so many positions
LONGEST_WORD = 100  # characters; a longer one becomes [UNK]
LONGEST_TEXT = 5000  # characters; to split a word takes a time that grows with its square
EPS = 1e-12  # of every LayerNorm

Edit = Callable[[int, Tensor], Tensor]  # of a layer's number and its weights: other weights


class Reading(NamedTuple):
    """What the first layer computes for one sentence.

    Attributes
    ----------
    tokens : list of str
        Word pieces, L of them, from ``[CLS]`` to ``[SEP]``.
    embedded : Tensor, shape (L, 384)
        Input of the attention.
    output : Tensor, shape (L, 384)
        Its output, before the residual connection.
    weights : Tensor, shape (12, L, L)
        Heads are counted from 0; row i holds the weights with which token i attends.
    """

    tokens: list[str]
    embedded: Tensor
    output: Tensor
    weights: Tensor


class EncoderReading(NamedTuple):
    """What the whole encoder computes for one sentence.

    Attributes
    ----------
    tokens : list of str
        Word pieces, L of them, from ``[CLS]`` to ``[SEP]``.
    vectors : Tensor, shape (7, L, 384)
        The vectors before the first layer, and after each of the six.
    weights : Tensor, shape (6, 12, L, L)
        Layers and heads are counted from 0; row i holds the weights with which token i attends.
    """

    tokens: list[str]
    vectors: Tensor
    weights: Tensor


class PretrainedEmbedding(nn.Module):
    """The part of the model before its first layer: from a sentence to vectors.

    Attributes
    ----------
    vocabulary : tuple of str
        The word pieces that it knows; ``##`` marks one that continues a word.
    words, positions, types : torch.nn.Embedding
        A token's vector is the sum of one row of each. ``words`` is kept in float16.
    norm : torch.nn.LayerNorm
        Applied to the sum.

    See Also
    --------
    torch.nn.Embedding : looks up rows of a table.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        super().__init__()
        self.vocabulary = tuple(vocabulary)
        self.words = nn.Embedding(len(self.vocabulary), EMBED_DIM, dtype=torch.float16)
        self.positions = nn.Embedding(MAX_TOKENS, EMBED_DIM)
        self.types = nn.Embedding(2, EMBED_DIM)
        self.norm = nn.LayerNorm(EMBED_DIM, eps=EPS)
        self._tokenizer = _tokenizer(self.vocabulary)

    def tokens(self, text: str) -> list[str]:
        """Return the word pieces of a sentence, between ``[CLS]`` and ``[SEP]``.

        They are those of the original model. Letters are turned to lower case and lose their
        accents, control characters are dropped, and a word that is not in the vocabulary is split
        into the longest pieces that are. A word with a character that is in no piece, such as an
        emoji, becomes ``[UNK]``.

        Parameters
        ----------
        text : str
            At most 510 pieces and 5,000 characters long. Markers such as ``[MASK]`` may occur in
            it.

        Returns
        -------
        list of str
            Pieces that continue a word begin with ``##``.

        Raises
        ------
        TypeError
            If ``text`` is not a string.
        ValueError
            If it holds no word or half a character, or is too long.

        See Also
        --------
        tokenizers.Tokenizer.encode : splits a text in the same way.
        """
        return [FIRST, *self._encode(text).tokens, LAST]

    def embed(self, tokens: Sequence[str], *, positions: Sequence[int] | None = None) -> Tensor:
        """Return the input of the first attention: word + position + type, normalised.

        Parameters
        ----------
        tokens : sequence of str, L of them
            Pieces of the vocabulary, in any order, with or without ``[CLS]`` and ``[SEP]``.
        positions : sequence of int, L of them, optional
            Position of each token, 0 to 511; counted from 0 if not given.

        Returns
        -------
        Tensor, shape (1, L, 384)
            A batch of one sentence.

        Raises
        ------
        TypeError
            If ``tokens`` is not a list of strings, or a position is not an integer.
        ValueError
            If a token is not in the vocabulary, there are none or more than 512, or the positions
            do not fit.

        See Also
        --------
        torch.nn.Embedding : looks up the rows that are added.
        """
        rows = self._numbers("tokens", tokens)
        places = _positions(positions, len(rows))
        return self._embedded(rows, places)[None]

    def _encode(self, text: str) -> Encoding:
        check_type("text", text, str, "a string")
        if len(text) > LONGEST_TEXT:
            raise ValueError(
                f"text must have at most {LONGEST_TEXT:,} characters, got {len(text):,}."
            )
        for word in text.split():
            if re.search("[\ud800-\udfff]", word):
                raise ValueError(
                    f"text must hold whole characters, but {word!r} contains half of one."
                )
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        if not encoding.tokens:
            raise ValueError(f"text must hold at least one word, got {short(text)}.")
        if len(encoding.tokens) > MAX_TOKENS - 2:
            raise ValueError(
                f"text must have at most {MAX_TOKENS - 2} word pieces, got {len(encoding.tokens)} "
                f"in {len(text.split())} words."
            )
        return encoding

    def _numbers(self, name: str, pieces: Sequence[str], most: int = MAX_TOKENS) -> list[int]:
        check_list(name, pieces, "a list of word pieces, as layer.tokens(text) returns it")
        if not 1 <= len(pieces) <= most:
            raise ValueError(f"{name} must hold 1 to {most} word pieces, got {len(pieces)}.")
        for piece in pieces:
            check_type(name, piece, str, "strings")
            if self._tokenizer.token_to_id(piece) is None:
                raise ValueError(
                    f"{name} must be pieces of the vocabulary, got {short(piece)}; "
                    "layer.tokens(text) splits any word into such pieces."
                )
        return [self._tokenizer.token_to_id(piece) for piece in pieces]

    def _embedded(self, rows: list[int], places: list[int]) -> Tensor:
        """Return word + position + type, normalised, for pieces given by number: (L, 384)."""
        device = self.words.weight.device
        word = self.words(torch.tensor(rows, device=device))
        place = self.positions(torch.tensor(places, device=device))
        return self.norm(word.to(place.dtype) + place + self.types.weight[0])


class PretrainedLayer(PretrainedEmbedding):
    """Embedding and first attention of a trained model; made by ``load_layer``.

    Attributes
    ----------
    vocabulary, words, positions, types, norm : as in ``PretrainedEmbedding``
    attention : MultiHeadAttention
        12 heads on 384 features, with the trained weights.

    See Also
    --------
    PretrainedEncoder : all six layers, each with its residual connections and feed-forward part.
    torch.nn.MultiheadAttention : ``layer.attention.to_torch()`` gives one.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        super().__init__(vocabulary)
        self.attention = MultiHeadAttention(EMBED_DIM, NUM_HEADS)

    def forward(self, tokens: Sequence[str]) -> AttentionOutput:
        """Return output (1, L, 384) and weights (1, 12, L, L) for a list of tokens."""
        return self.attention(self.embed(tokens))

    def read(self, text: str) -> Reading:
        """Return tokens, vectors, output and weights of a sentence, without a batch dimension.

        Parameters
        ----------
        text : str
            As for ``tokens``.

        Returns
        -------
        Reading
            ``tokens``, ``embedded``, ``output`` and ``weights``.

        Raises
        ------
        TypeError, ValueError
            As ``tokens`` does.

        See Also
        --------
        PretrainedEncoder.read : the same for all six layers.

        Examples
        --------
        >>> reading = load_layer().read("she sat on the bank of the river")
        >>> bank, river = reading.tokens.index("bank"), reading.tokens.index("river")
        >>> f"{reading.weights[4, bank, river]:.2f}"
        '0.71'
        """
        tokens = self.tokens(text)
        embedded = self.embed(tokens)
        output, weights = self.attention(embedded)
        return Reading(tokens, embedded[0], output[0], weights[0])

    def common_words(self, count: int) -> list[str]:
        """Return the first words of the vocabulary that have at least three letters.

        They are whole words, without numbers and markers. The vocabulary roughly follows the
        frequency of the words, so these are roughly the most common ones.

        Parameters
        ----------
        count : int
            How many, 1 to 21,361.

        Returns
        -------
        list of str
            In the order of the vocabulary.

        Raises
        ------
        TypeError
            If ``count`` is not an integer.
        ValueError
            If it is less than 1, or larger than the number of such words.

        See Also
        --------
        attend_as : lets them ask in the place of another word.

        Examples
        --------
        >>> load_layer().common_words(3)
        ['the', 'and', 'was']
        """
        words = [piece for piece in self.vocabulary if piece.isalpha() and len(piece) > 2]
        return words[: check_size("count", count, at_least=1, at_most=len(words))]

    def attend_as(self, askers: Sequence[str], tokens: Sequence[str], place: int) -> Tensor:
        """Return the weights with which other words would attend in the place of one token.

        Each asker takes the place in turn, as a query and as a key; the other tokens stay. It is
        much faster than running the layer once for each of them.

        Parameters
        ----------
        askers : sequence of str, A of them
            Pieces of the vocabulary.
        tokens : sequence of str, L of them
            As for ``embed``.
        place : int
            Position of the token that is replaced, 0 to L - 1.

        Returns
        -------
        Tensor, shape (12, A, L)
            Row a of a head holds the weights with which asker a attends to each position.

        Raises
        ------
        TypeError
            If ``askers`` or ``tokens`` is not a list of strings, or ``place`` is not an integer.
        ValueError
            If an asker or a token is not in the vocabulary, there are no askers, there are none or
            more than 512 tokens, or the place is outside the sentence.

        See Also
        --------
        torch.nn.MultiheadAttention : the same, for one asker at a time.

        Examples
        --------
        >>> layer = load_layer()
        >>> tokens = layer.tokens("she sat on the bank of the river")
        >>> layer.attend_as(["bank", "chair", "edge"], tokens, tokens.index("bank")).shape
        torch.Size([12, 3, 10])
        """
        x = self.embed(tokens)[0]  # (L, 384)
        place = check_size("place", place, at_least=0, at_most=len(x) - 1)
        rows = self._numbers("askers", askers, len(self.vocabulary))
        asking = self._embedded(rows, [place] * len(rows))  # (A, 384)
        query = split_heads(self.attention.q_proj(asking), NUM_HEADS)  # (12, A, 32)
        key, own = (split_heads(self.attention.k_proj(x), NUM_HEADS) for x in (x, asking))
        scores = attention_scores(query, key)  # (12, A, L)
        # each asker meets its own key there, not that of the token it replaces
        scores[..., place] = (query * own).sum(dim=-1) / query.shape[-1] ** 0.5
        return attention_weights(scores)


class _EncoderLayer(nn.Module):
    """Attention and a feed-forward part, each with a residual connection and a LayerNorm after it.

    Attributes
    ----------
    attention : MultiHeadAttention
        12 heads on 384 features.
    expand, contract : torch.nn.Linear
        The feed-forward part: 384 to 1,536 features, GELU, and back.
    attention_norm, output_norm : torch.nn.LayerNorm
        Applied after each residual connection.

    See Also
    --------
    torch.nn.TransformerEncoderLayer : the same with ``norm_first=False`` and ``activation="gelu"``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(EMBED_DIM, NUM_HEADS)
        self.attention_norm = nn.LayerNorm(EMBED_DIM, eps=EPS)
        self.expand = nn.Linear(EMBED_DIM, HIDDEN_DIM)
        self.contract = nn.Linear(HIDDEN_DIM, EMBED_DIM)
        self.output_norm = nn.LayerNorm(EMBED_DIM, eps=EPS)

    def forward(
        self, x: Tensor, *, edit: Callable[[Tensor], Tensor] | None = None
    ) -> AttentionOutput:
        """Return the new vectors (N, L, 384) and the attention weights (N, 12, L, L).

        ``edit`` makes other weights of those of the layer; they take their place.
        """
        attended, weights = self.attention(x)
        if edit is not None:
            weights = edit(weights)
            value = split_heads(self.attention.v_proj(x), NUM_HEADS)  # (N, 12, L, 32)
            attended = self.attention.out_proj(merge_heads(weights @ value))
        x = self.attention_norm(x + attended)
        processed = self.contract(F.gelu(self.expand(x)))
        return AttentionOutput(self.output_norm(x + processed), weights)


class PretrainedEncoder(PretrainedEmbedding):
    """The whole of a trained model, from words to vectors; made by ``load_encoder``.

    Attributes
    ----------
    vocabulary, words, positions, types, norm : as in ``PretrainedEmbedding``
    layers : torch.nn.ModuleList
        Six layers. Each has ``attention``, a feed-forward part from ``expand`` to ``contract``, and
        after each of the two a residual connection and a LayerNorm, ``attention_norm`` and
        ``output_norm``.

    See Also
    --------
    PretrainedLayer : the embedding and the first attention alone.
    torch.nn.TransformerEncoder : a stack of layers.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        super().__init__(vocabulary)
        self.layers = nn.ModuleList(_EncoderLayer() for _ in range(NUM_LAYERS))

    def forward(
        self,
        tokens: Sequence[str],
        *,
        positions: Sequence[int] | None = None,
        edit: Edit | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return vectors (7, 1, L, 384) and weights (6, 1, 12, L, L) for a list of tokens.

        Parameters
        ----------
        tokens, positions
            As for ``embed``.
        edit
            As for ``read``.

        Returns
        -------
        vectors : Tensor, shape (7, 1, L, 384)
            The vectors before the first layer, and after each of the six.
        weights : Tensor, shape (6, 1, 12, L, L)
            The weights that were used.

        Raises
        ------
        TypeError, ValueError
            As ``embed`` and ``read`` do.

        See Also
        --------
        read : the same for a text, without a batch dimension.
        """
        return self.encode(self.embed(tokens, positions=positions), edit=edit)

    def encode(self, x: Tensor, *, edit: Edit | None = None) -> tuple[Tensor, Tensor]:
        """Return the vectors and weights of sentences of one length that are embedded already.

        Parameters
        ----------
        x : Tensor, shape (N, L, 384)
            From ``embed``, for one sentence or joined for several.
        edit : function, optional
            As for ``read``; it gets weights of shape (N, 12, L, L).

        Returns
        -------
        vectors : Tensor, shape (7, N, L, 384)
            ``x``, and the vectors after each of the six layers.
        weights : Tensor, shape (6, N, 12, L, L)
            The weights that were used.

        Raises
        ------
        TypeError, ValueError
            If ``x`` has another shape or dtype, or ``edit`` is wrong as ``read`` says.

        See Also
        --------
        torch.nn.TransformerEncoder : it returns the last vectors only.
        """
        check_exact_ndim("x", x, "(N, L, 384)", ndim=3, fix="use embed.")
        if x.shape[-1] != EMBED_DIM:
            raise ValueError(
                f"x must have {EMBED_DIM} features (dimension -1), got {shape(x)}; use embed."
            )
        check_same_kind("x", x, "encoder", self.norm.weight)
        if edit is not None and not callable(edit):
            raise TypeError(
                f"edit must be a function of a layer's number and its weights, got {short(edit)}."
            )
        vectors, weights = [x], []
        for number, layer in enumerate(self.layers):
            own = None if edit is None else partial(_edited, edit, number)
            x, seen = layer(x, edit=own)
            vectors.append(x)
            weights.append(seen)
        return torch.stack(vectors), torch.stack(weights)

    def read(self, text: str, *, edit: Edit | None = None) -> EncoderReading:
        """Return tokens, vectors and weights of a sentence, without a batch dimension.

        Parameters
        ----------
        text : str
            As for ``tokens``.
        edit : function, optional
            It is called in every layer with the number of the layer, 0 to 5, and its weights
            (1, 12, L, L). The weights that it returns are used in their place. Zeros take a head
            out: it then adds nothing, not even the bias of its values.

        Returns
        -------
        EncoderReading
            ``tokens``, ``vectors`` and ``weights``, those that were used.

        Raises
        ------
        TypeError
            As ``tokens`` does, or if ``edit`` does not return a tensor.
        ValueError
            As ``tokens`` does, or if its shape is another one.

        See Also
        --------
        PretrainedLayer.read : the first attention alone, with its own output.

        Examples
        --------
        >>> reading = load_encoder().read("she sat on the bank of the river")
        >>> reading.vectors.shape, reading.weights.shape
        (torch.Size([7, 10, 384]), torch.Size([6, 12, 10, 10]))
        """
        tokens = self.tokens(text)
        vectors, weights = self(tokens, edit=edit)
        return EncoderReading(tokens, vectors[:, 0], weights[:, 0])


def _edited(edit: Edit, number: int, weights: Tensor) -> Tensor:
    """Return what ``edit`` makes of the weights of a layer."""
    new = edit(number, weights)
    check_tensor("what edit returns", new)
    if new.shape != weights.shape:
        raise ValueError(
            f"what edit returns must have the shape of the weights, {shape(weights)}, "
            f"got {shape(new)}."
        )
    return new


Model = TypeVar("Model", bound=PretrainedEmbedding)


def load_layer() -> PretrainedLayer:
    """Return embedding and first attention of all-MiniLM-L6-v2, ready to read sentences.

    Returns
    -------
    PretrainedLayer
        In evaluation mode, float32, on the CPU, its parameters without gradients. Every call
        makes a new one, so changing it does not affect any other.

    See Also
    --------
    load_encoder : the whole model.
    torch.nn.MultiheadAttention : ``load_layer().attention.to_torch()`` gives one.

    Notes
    -----
    Apache-2.0; ``data/README.md`` says where the weights come from. They are stored in float16, and
    the vectors of the words are read from the file when they are looked up.

    References
    ----------
    Wang et al., "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of
    Pre-Trained Transformers", 2020. https://arxiv.org/abs/2002.10957

    Examples
    --------
    >>> layer = load_layer()
    >>> tokens = layer.tokens("she sat on the bank of the river")
    >>> output, weights = layer.attention(layer.embed(tokens))
    >>> output.shape, weights.shape
    (torch.Size([1, 10, 384]), torch.Size([1, 12, 10, 10]))
    """
    first = "layers.0."
    stored = load_tensors("minilm_layers.safetensors").items()
    attention = {
        name.removeprefix(first): weight
        for name, weight in stored
        if name.startswith(f"{first}attention.")
    }
    return _loaded(PretrainedLayer, attention)


def load_encoder() -> PretrainedEncoder:
    """Return all six layers of all-MiniLM-L6-v2, ready to read sentences.

    Returns
    -------
    PretrainedEncoder
        In evaluation mode, float32, on the CPU, its parameters without gradients. Every call
        makes a new one, so changing it does not affect any other.

    See Also
    --------
    load_layer : the first attention alone, in less time and memory.
    torch.nn.TransformerEncoder : a stack of such layers.

    Notes
    -----
    Sources and licence are those of ``load_layer``. The original averages the vectors after the
    last layer into one vector for the whole sentence; that step is left out here.

    Examples
    --------
    >>> encoder = load_encoder()
    >>> len(encoder.layers), len(encoder.vocabulary)
    (6, 30522)
    """
    return _loaded(PretrainedEncoder, load_tensors("minilm_layers.safetensors"))


def _loaded(model: type[Model], stored: dict[str, Tensor]) -> Model:
    """Return a model with the stored numbers: all in float32 but the vectors of the words."""
    embedding = load_tensors("minilm_embedding.safetensors")
    words = embedding.pop("words.weight")  # mapped from the file: no other model writes into it
    numbers = {name: tensor.float() for name, tensor in (embedding | stored).items()}
    return load_model(lambda: model(_vocabulary()), numbers | {"words.weight": words})


@cache
def _vocabulary() -> tuple[str, ...]:
    return tuple(data_path("minilm_vocab.txt").read_text(encoding="utf-8").split("\n")[:-1])


@cache
def _tokenizer(pieces: tuple[str, ...]) -> Tokenizer:
    """Return BERT's tokenizer over some pieces: lower case, no accents, longest piece first."""
    number = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(
        models.WordPiece(number, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(MARKERS))
    return tokenizer


def _positions(positions: Sequence[int] | None, length: int) -> list[int]:
    if positions is None:
        return list(range(length))
    check_list("positions", positions, "a list of integers")
    if len(positions) != length:
        raise ValueError(
            f"positions must be one for each of {length} tokens, got {len(positions)}."
        )
    last = MAX_TOKENS - 1
    return [check_size("positions", position, at_least=0, at_most=last) for position in positions]
