"""Judge a call of a layer that reads words first, with a batch whose sentences come first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attnlab.exercises._answers import Answer, NotDone, Right, Wrong, article

SIZES = ((2, 5), (3, 3))  # sentences and words; equal numbers hide a mistake
FEATURES, HEADS, DROPOUT = 8, 2, 0.5  # dropout shows a layer that was left in training mode


class Watched(nn.MultiheadAttention):
    """A layer that remembers in which state it was called: ``batch_first`` and ``training``."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[tuple[bool, bool]] = []

    def forward(self, *args, **kwargs):
        self.calls.append((self.batch_first, self.training))
        return super().forward(*args, **kwargs)


def sequence_first(answer: Answer) -> Right:
    """Return that a call is right.

    Parameters
    ----------
    answer : Answer
        A function of (layer, x) that returns output and weights.

    Returns
    -------
    Right
        For both sizes.

    Raises
    ------
    NotDone
        If it is a stub.
    Wrong
        If sentences mix, the numbers differ, or it changes or rebuilds the layer.
    """
    torch.manual_seed(0)
    for N, L in SIZES:
        layer = Watched(FEATURES, HEADS, dropout=DROPOUT).eval()
        twin = nn.MultiheadAttention(FEATURES, HEADS, batch_first=True).eval()
        twin.load_state_dict(layer.state_dict())
        _compare(answer, layer, twin, torch.randn(N, L, FEATURES))
    return Right("No sentence moves another, and output and weights are those of a batch.")


def tensor(value: object) -> Tensor:
    """Return what a learner's function returned, without its gradient; raise Wrong if no tensor."""
    if not isinstance(value, Tensor):
        raise Wrong(f"It returns {article(type(value).__name__)} instead of a tensor.")
    return value.detach()


def _compare(answer: Answer, layer: Watched, twin: nn.MultiheadAttention, x: Tensor) -> None:
    """Raise Wrong unless the answer gives what the same layer gives with the batch first."""
    N, L, _ = x.shape
    case = f"{N} sentences of {L} words, x {tuple(x.shape)},"
    output, weights = (part.detach() for part in twin(x, x, x))
    got, got_weights = _asked(answer, layer, x, case)
    _check_state(layer)
    if got.shape != output.shape:
        turned = " Turn the output back." if got.shape == output.transpose(0, 1).shape else ""
        raise Wrong(
            f"With {case} the output must be {tuple(output.shape)}, got {tuple(got.shape)}.{turned}"
        )
    if not torch.allclose(got, output, atol=1e-5):
        raise Wrong(_why_mixed(layer, x, got))
    if got_weights.shape != weights.shape:
        raise Wrong(
            f"The output is right. The weights must be {tuple(weights.shape)}, "
            f"got {tuple(got_weights.shape)}: the layer returns them with the batch in front, "
            "and as their mean over heads."
        )
    if not torch.allclose(got_weights, weights, atol=1e-5):
        raise Wrong("The output is right, the weights are not. Return them as they come.")


def _asked(answer: Answer, layer: Watched, x: Tensor, case: str) -> tuple[Tensor, Tensor]:
    """Return output and weights; no second layer may be built meanwhile."""
    try:
        with _no_second_layer():
            return answer.ask(layer, x.clone(), read=_pair, case=case)
    except NotDone:
        if layer.calls:
            raise Wrong("It calls the layer and returns None: is return missing?") from None
        raise


@contextmanager
def _no_second_layer() -> Iterator[None]:
    original = nn.MultiheadAttention.__init__

    def refuse(*_args, **_kwargs) -> None:
        raise Wrong("It builds another layer. Call the one that is given, and turn the data.")

    nn.MultiheadAttention.__init__ = refuse
    try:
        yield
    finally:
        nn.MultiheadAttention.__init__ = original


def _check_state(layer: Watched) -> None:
    """Raise Wrong unless the layer itself was called, as it was."""
    if not layer.calls:
        raise Wrong("It does not call the layer that is given. Turn the data, not the layer.")
    batch_first, training = (any(states) for states in zip(*layer.calls, strict=True))
    if batch_first or layer.batch_first:
        raise Wrong("It switches the layer to batch_first. Turn the data, not the layer.")
    if training or layer.training:
        raise Wrong("It switches the layer to training mode, where dropout strikes out weights.")


def _why_mixed(layer: nn.MultiheadAttention, x: Tensor, got: Tensor) -> str:
    """Name the bug behind a wrong output of the right shape."""
    N, L, features = x.shape
    as_is = layer(x, x, x)[0].detach()
    turned = x.transpose(0, 1)
    unturned = layer(turned, turned, turned)[0].detach()
    cut = x.reshape(L, N, features)
    dealt = layer(cut, cut, cut)[0].detach()
    case = f"With {N} sentences of {L} words"
    if torch.allclose(got, as_is, atol=1e-5):
        return (
            f"{case} word t of one sentence still looks at word t of the others: the layer reads "
            "(L, N, E). Change sentence 0, and sentence 1 moves."
        )
    if torch.allclose(got, unturned.reshape(N, L, features), atol=1e-5):
        return f"{case} the output is cut, not turned back: use transpose, not reshape."
    if torch.allclose(got, dealt.reshape(N, L, features), atol=1e-5):
        return f"{case} reshape deals the words out in another order: use transpose."
    return f"{case} the output has the right shape and wrong numbers."


def _pair(value: object) -> tuple[Tensor, Tensor]:
    if isinstance(value, Tensor) or not isinstance(value, tuple | list) or len(value) != 2:
        raise Wrong("Return two things: output and weights.")
    if any(part is None for part in value):
        raise (NotDone if all(part is None for part in value) else Wrong("One of the two is None."))
    return tensor(value[0]), tensor(value[1])
