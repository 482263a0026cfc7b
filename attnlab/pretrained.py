"""One real attention layer: the first of all-MiniLM-L6-v2, with a part of its vocabulary.

Needs ``tokenizers`` and ``safetensors``; everything is read from the project's own files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab._checks import check_list, check_size, check_type, lessons_extra, short
from attnlab.attention import attention_scores, attention_weights
from attnlab.data import data_path, load_tensors
from attnlab.heads import split_heads
from attnlab.modules import AttentionOutput, MultiHeadAttention

with lessons_extra():
    from tokenizers import Encoding, Tokenizer, models, normalizers, pre_tokenizers

FIRST, LAST, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
MARKERS = ("[PAD]", UNKNOWN, FIRST, LAST, "[MASK]")
EMBED_DIM, NUM_HEADS = 384, 12
MAX_TOKENS = 128  # the original has positions for 512
LONGEST_WORD = 100  # characters; the original gives up on a longer one
NAMED = 3  # words that an error names


class Reading(NamedTuple):
    """What the layer computes for one sentence.

    Attributes
    ----------
    tokens : list of str
        Word pieces, L of them, from ``[CLS]`` to ``[SEP]``.
    embedded : Tensor, shape (L, 384)
        Input of the attention.
    output : Tensor, shape (L, 384)
        Its output, before the residual connection of the original model.
    weights : Tensor, shape (12, L, L)
        Heads are counted from 0; row i holds the weights with which token i attends.
    """

    tokens: list[str]
    embedded: Tensor
    output: Tensor
    weights: Tensor


class PretrainedLayer(nn.Module):
    """Tokenizer, embedding and first attention of a trained model; made by ``load_layer``.

    Attributes
    ----------
    vocabulary : tuple of str
        The 3,000 word pieces that it knows; ``##`` marks one that continues a word.
    words, positions, types : torch.nn.Embedding
        A token's vector is the sum of one row of each.
    norm : torch.nn.LayerNorm
        Applied to the sum.
    attention : MultiHeadAttention
        12 heads on 384 features, with the trained weights.

    See Also
    --------
    torch.nn.TransformerEncoderLayer : attention, residual connections, LayerNorms, feed-forward.

    Notes
    -----
    The model has six such layers, and after each attention a residual connection, a LayerNorm and
    a feed-forward part. This is the first attention alone, weights rounded to float16 and
    computed in float32.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        check_list("vocabulary", vocabulary, "a list of word pieces")
        for piece in vocabulary:
            check_type("vocabulary", piece, str, "word pieces")
        if not {*MARKERS} <= {*vocabulary}:
            raise ValueError(f"vocabulary must hold {', '.join(MARKERS)}, got {short(vocabulary)}.")
        super().__init__()
        self.vocabulary = tuple(vocabulary)
        self.words = nn.Embedding(len(self.vocabulary), EMBED_DIM)
        self.positions = nn.Embedding(MAX_TOKENS, EMBED_DIM)
        self.types = nn.Embedding(2, EMBED_DIM)
        self.norm = nn.LayerNorm(EMBED_DIM, eps=1e-12)
        self.attention = MultiHeadAttention(EMBED_DIM, NUM_HEADS)
        self._number = {piece: index for index, piece in enumerate(self.vocabulary)}
        self._tokenizer = _tokenizer(self.vocabulary)

    def tokens(self, text: str) -> list[str]:
        """Return the word pieces of a sentence, between ``[CLS]`` and ``[SEP]``.

        Letters are turned to lower case and lose their accents, as in the original. A word that is
        not in the vocabulary is split into the longest pieces that are.

        Parameters
        ----------
        text : str
            English, at most 126 pieces long. Markers such as ``[MASK]`` may occur in it.

        Returns
        -------
        list of str
            Pieces that continue a word begin with ``##``.

        Raises
        ------
        TypeError
            If ``text`` is not a string.
        ValueError
            If it is empty or too long, or if a word has characters that are in no piece, such as
            an emoji, another script or a control character.

        See Also
        --------
        respelled : words that the original model splits into other pieces.
        """
        return [FIRST, *self._encode(text).tokens, LAST]

    def respelled(self, text: str) -> dict[str, list[str]]:
        """Return the words that the original model, with more pieces, splits in another way.

        For these words the layer does not compute what the original model computes.

        Parameters
        ----------
        text : str
            As for ``tokens``.

        Returns
        -------
        dict of str to list of str
            From the word, in lower case, to its pieces in the original, often the word itself.

        Raises
        ------
        TypeError, ValueError
            As ``tokens`` does.

        See Also
        --------
        tokens : the pieces that are used here.
        tokenizers.Tokenizer.encode : splits a text in the same way.
        """
        ours = _pieces_by_word(self._encode(text))
        theirs = _pieces_by_word(_original_tokenizer().encode(text, add_special_tokens=False))
        return {
            "".join(pieces).replace("##", ""): pieces
            for word, pieces in theirs.items()
            if pieces != ours[word]
        }

    def embed(self, tokens: Sequence[str], *, positions: Sequence[int] | None = None) -> Tensor:
        """Return the input of the attention: word + position + type, normalised.

        Parameters
        ----------
        tokens : sequence of str, L of them
            Pieces of the vocabulary, in any order, with or without ``[CLS]`` and ``[SEP]``.
        positions : sequence of int, L of them, optional
            Position of each token, 0 to 127; counted from 0 if not given.

        Returns
        -------
        Tensor, shape (1, L, 384)
            A batch of one sentence, ready for ``attention``.

        Raises
        ------
        TypeError
            If ``tokens`` is not a list of strings, or a position is not an integer.
        ValueError
            If a token is not in the vocabulary, there are none or more than 128, or the positions
            do not fit.

        See Also
        --------
        torch.nn.Embedding : looks up the rows that are added.
        """
        rows = self._rows(tokens)
        places = _positions(positions, len(rows))
        return self._embedded(rows, places)[None]

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
        torch.nn.TransformerEncoderLayer : computes all that the original layer does.

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
            more than 128 tokens, or the place is outside the sentence.

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
        check_size("place", place, at_least=0, at_most=len(x) - 1)
        rows = self._numbers("askers", askers)
        asking = self._embedded(rows, [place] * len(rows))  # (A, 384)
        query = split_heads(self.attention.q_proj(asking), NUM_HEADS)  # (12, A, 32)
        key, own = (split_heads(self.attention.k_proj(one), NUM_HEADS) for one in (x, asking))
        scores = attention_scores(query, key)  # (12, A, L)
        # each asker meets its own key there, not that of the token it replaces
        scores[..., place] = (query * own).sum(dim=-1) / query.shape[-1] ** 0.5
        return attention_weights(scores)

    def _encode(self, text: str) -> Encoding:
        words = _checked_words(text)
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        unknown = _unknown_words(encoding, text)
        if unknown:
            more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
            raise ValueError(
                "text must be spelled with Latin letters, digits and common punctuation; no piece "
                f"of the vocabulary fits into {', '.join(unknown[:NAMED])}{more}."
            )
        if len(encoding.tokens) > MAX_TOKENS - 2:
            raise ValueError(
                f"text must have at most {MAX_TOKENS - 2} word pieces, got {len(encoding.tokens)} "
                f"in {len(words)} words."
            )
        return encoding

    def _rows(self, tokens: Sequence[str]) -> list[int]:
        if not isinstance(tokens, Sequence) or isinstance(tokens, str | bytes):
            raise TypeError(
                f"tokens must be a list of word pieces, got {type(tokens).__name__}; "
                "use layer.tokens(text)."
            )
        if not 1 <= len(tokens) <= MAX_TOKENS:
            raise ValueError(f"tokens must hold 1 to {MAX_TOKENS} word pieces, got {len(tokens)}.")
        return self._numbers("tokens", tokens)

    def _numbers(self, name: str, pieces: Sequence[str]) -> list[int]:
        check_list(name, pieces, "a list of word pieces")
        if not pieces:
            raise ValueError(f"{name} must hold at least one word piece, got none.")
        for piece in pieces:
            check_type(name, piece, str, "strings")
            if piece not in self._number:
                raise ValueError(
                    f"{name} must be pieces of the vocabulary, got {short(piece)}; "
                    "layer.tokens(text) splits any word into such pieces."
                )
        return [self._number[piece] for piece in pieces]

    def _embedded(self, rows: list[int], places: list[int]) -> Tensor:
        """Return word + position + type, normalised, for pieces given by number: (L, 384)."""
        device = self.words.weight.device
        word = self.words(torch.tensor(rows, device=device))
        place = self.positions(torch.tensor(places, device=device))
        return self.norm(word + place + self.types.weight[0])


def load_layer() -> PretrainedLayer:
    """Return the first attention layer of all-MiniLM-L6-v2, ready to read sentences.

    Returns
    -------
    PretrainedLayer
        In evaluation mode, float32, on the CPU, its parameters without gradients. Every call
        makes a new one, so changing it does not affect any other.

    See Also
    --------
    torch.nn.MultiheadAttention : ``load_layer().attention.to_torch()`` gives one.

    Notes
    -----
    Apache-2.0; ``data/README.md`` says where the weights come from and which words were kept.

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
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
        layer = PretrainedLayer(_lines("minilm_vocab.txt"))
    layer.load_state_dict(_stored())  # copies, and turns float16 into float32
    return layer.eval().requires_grad_(False)


@cache
def _stored() -> dict[str, Tensor]:
    """Return the tensors of the file, float16; shared, so they must not leave this module."""
    return load_tensors("minilm_layer.safetensors")


@cache
def _lines(name: str) -> tuple[str, ...]:
    return tuple(data_path(name).read_text(encoding="utf-8").split("\n")[:-1])


def _tokenizer(pieces: Sequence[str]) -> Tokenizer:
    """Return BERT's tokenizer over some pieces: lower case, no accents, longest piece first."""
    number = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(
        models.WordPiece(number, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
    )
    # clean_text would drop control characters without a word
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=False, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(MARKERS))
    return tokenizer


@cache
def _original_tokenizer() -> Tokenizer:
    """Return the tokenizer over all pieces that consist of Latin letters."""
    return _tokenizer((*_lines("minilm_vocab.txt"), *_lines("minilm_left_out.txt")))


def _checked_words(text: object) -> list[str]:
    check_type("text", text, str, "a string")
    words = text.split()
    if not words:
        raise ValueError(f"text must hold at least one word, got {short(text)}.")
    if len(words) > MAX_TOKENS - 2:
        raise ValueError(f"text must have at most {MAX_TOKENS - 2} words, got {len(words)}.")
    for word in words:
        if len(word) > LONGEST_WORD:
            raise ValueError(
                f"text must have words of at most {LONGEST_WORD} characters, got {short(word)} "
                f"of {len(word)}."
            )
        if re.search("[\ud800-\udfff]", word):
            raise ValueError(f"text must be readable characters, got half a character in {word!r}.")
    return words


def _unknown_words(encoding: Encoding, text: str) -> list[str]:
    """Return the words that have no pieces, or only ``[UNK]``."""
    pairs = zip(encoding.tokens, encoding.offsets, strict=True)
    spans = {span for token, span in pairs if token != UNKNOWN}
    unknown = []
    for match in re.finditer(r"\S+", text):
        pieces = [span for span in encoding.offsets if match.start() <= span[0] < match.end()]
        if not pieces or any(span not in spans for span in pieces):
            unknown.append(short(match.group()))
    return unknown


def _pieces_by_word(encoding: Encoding) -> dict[int, list[str]]:
    """Return the pieces of every word by the place where the word begins in the text."""
    words: dict[int, list[str]] = {}
    start = 0
    for token, (begin, _end) in zip(encoding.tokens, encoding.offsets, strict=True):
        if not token.startswith("##"):
            start = begin
        words.setdefault(start, []).append(token)
    return words


def _positions(positions: Sequence[int] | None, length: int) -> list[int]:
    if positions is None:
        return list(range(length))
    check_list("positions", positions, "a list of integers")
    if len(positions) != length:
        raise ValueError(
            f"positions must be one for each of {length} tokens, got {len(positions)}."
        )
    for position in positions:
        check_size("positions", position, at_least=0, at_most=MAX_TOKENS - 1)
    return list(positions)
