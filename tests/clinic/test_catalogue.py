"""The catalogue itself: every broken entry is broken, every right one is right, without the clinic.

Attention functions and modules are held against torch in float64, the rest against the property
that they claim. Which cause is found first is tested elsewhere.
"""

import inspect
import signal
from collections.abc import Callable
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.clinic.broken import BROKEN, RIGHT, THEMES, Case

pytestmark = pytest.mark.filterwarnings("ignore")  # learners' code may warn

CAUSES = set(
    """raises not-done wrong-type wrong-shape prints modifies-input random remembers hangs detached
    contiguity device dtype nan softmax-axis not-normalised hard scale-missing scale-d scale-inverse
    scale-model scale-quarter scale-length scale-constant scale-other scores-not-dot-products
    key-value-swapped query-key-swapped wrong-source batch-mixing head-mixing position-mixing
    transposed-batch square-only weights-differ mask-ignored mask-inverted mask-added
    mask-multiplied mask-after-softmax mask-finite mask-queries mask-transposed mask-broadcast
    causal-leak causal-off-by-one causal-flipped causal-eval causal-missing blocked-row
    split-without-transpose merge-without-transpose split-and-merge attends-over-heads heads-shared
    heads-from-input batch-first cross-side padding-leak heads-order round-trip length-off-by-one
    mask-dtype underflow""".split()
)
MISCONCEPTIONS = {f"M{number}" for number in range(1, 16)}  # code can meet every one of the fifteen
PRIMES, EQUAL = (2, 3, 5, 7, 11, 13), (3, 3, 5, 5, 7, 7)  # N, H, L, S, E, Ev
FLAGS = ("is_causal", "causal")
FUNCTIONS = "axis scale roles mixing masks causal manners right_functions right_masks".split()
MASKS = ("mask", "attn_mask", "additive_mask", "key_padding_mask")


def parameters(case: Case) -> dict[str, inspect.Parameter]:
    """Return the parameters by name; of a module, those of its forward."""
    forward = getattr(case.target, "forward", case.target)
    return {n: p for n, p in inspect.signature(forward).parameters.items() if n != "self"}


def named(cases: tuple[Case, ...]) -> list:
    """Return the attention functions (and modules without parameters) as pytest parameters."""
    themes = {f"attnlab.clinic.broken.{theme}" for theme in FUNCTIONS}
    return [pytest.param(c, id=c.name) for c in cases if c.target.__module__ in themes]


# --- running an attention function ----------------------------------------------------------------


def draw(axes: int, sizes: tuple[int, ...], size: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    n, heads, length, keys, width, value_width = sizes
    lead = (n, heads)[: axes - 2]
    shapes = (length, width), (keys, width), (keys, value_width)
    q, k, v = (torch.randn(*lead, *shape, dtype=torch.float64) for shape in shapes)
    return q * size, k, v


def pairs(case: Case, q: Tensor, k: Tensor) -> list[tuple[dict, dict]]:
    """Return what the function is given beside q, k and v, and what torch is given."""
    names = parameters(case)
    flag = next((name for name in FLAGS if name in names), None)
    mask = next((name for name in MASKS if name in names), None)
    if "causal" in case.name and not flag:
        return [({}, {"is_causal": True})]
    found = [({flag: True}, {"is_causal": True})] if flag else []
    if mask == "key_padding_mask" and q.ndim > 2:
        lengths = torch.arange(k.shape[-2] - 1, k.shape[-2] - 1 - len(q), -1)
        keep = torch.arange(k.shape[-2]) < lengths[:, None]
        found.append(({mask: ~keep}, {"attn_mask": keep.view(len(q), *[1] * (q.ndim - 2), -1)}))
    elif mask and mask != "key_padding_mask":
        keep = random_mask(case, q, k)
        whole = keep.unsqueeze(1) if keep.ndim == 3 and q.ndim == 4 else keep
        found.append(({mask: as_given(case, keep, q.dtype)}, {"attn_mask": whole}))
    if not mask or names[mask].default is None:
        found.append(({}, {}))
    return found


def random_mask(case: Case, q: Tensor, k: Tensor) -> Tensor:
    """Return a mask of (L, S), or (N, L, S) where that is the point; row 1 blocked if strict."""
    lead = q.shape[:1] if case.cause == "mask-broadcast" and q.ndim > 2 else ()
    keep = torch.rand(*lead, q.shape[-2], k.shape[-2]) < 0.6
    keep[..., 0] = True
    if case.options.get("strict"):
        keep[..., 1, :] = False
    return keep


def as_given(case: Case, keep: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the mask in the convention that the case names in its options."""
    convention = case.options.get("mask")
    if convention == "additive":
        return torch.zeros(keep.shape, dtype=dtype).masked_fill(~keep, -torch.inf)
    return ~keep if convention == "blocked" else keep


def ready(case: Case) -> Callable:
    """Return a new instance, in eval mode if it is a module."""
    made = case.make()
    return made.eval() if isinstance(made, nn.Module) else made


def call(case: Case, made, q: Tensor, k: Tensor, v: Tensor, **more):
    """Call with the arguments in the function's own order and names."""
    names = [name for name in parameters(case) if name not in (*MASKS, *FLAGS, "dropout_p")]
    return made(**{name: {"q": q, "k": k, "v": v}[name[0].lower()] for name in names}, **more)


def output_of(result: object, shape: torch.Size) -> object:
    parts = result if isinstance(result, tuple) else (result,)
    return next((part for part in parts if part.shape == shape), parts[0])


def runs(case: Case, sizes=(PRIMES, EQUAL)):
    """Yield (result, expected) of every call that the function survives."""
    large = 300.0 if case.cause == "mask-finite" else 1.0
    for axes, size in product((2, 3, 4), sizes):
        q, k, v = draw(axes, size, large)
        for given, torchs in pairs(case, q, k):
            expected = F.scaled_dot_product_attention(q, k, v, **torchs)
            try:
                result = call(case, ready(case), q.clone(), k, v, **given)
            except Exception:
                continue
            yield output_of(result, expected.shape), expected


def distance(output: Tensor, expected: Tensor) -> float:
    """Return the largest difference; infinite for another shape or NaN."""
    if output.shape != expected.shape:
        return float("inf")
    difference = (output - expected).abs().max()
    return float("inf") if difference.isnan() else float(difference)


# --- evidence, by cause ---------------------------------------------------------------------------


def plain(case: Case, axes: tuple[int, ...] = (3, 4, 2)):
    """Return a new instance and inputs it accepts, and the keywords of the first mask."""
    for axis, sizes in product(axes, (PRIMES, EQUAL)):
        q, k, v = draw(axis, sizes)
        given, again = ((pairs(case, q, k) or [({}, {})])[0][0] for _ in range(2))
        try:
            call(case, ready(case), q.clone(), k, v, **given)
        except Exception:
            continue
        return ready(case), (q, k, v), again
    raise AssertionError(f"{case.name} accepts nothing")


def never_runs(case: Case) -> bool:
    return not list(runs(case, (PRIMES,)))


def modifies(case: Case) -> bool:
    made, tensors, given = plain(case)
    everything = [x for x in (*tensors, *given.values()) if isinstance(x, Tensor)]
    before = [tensor.clone() for tensor in everything]
    call(case, made, *tensors, **given)
    return any(not a.equal(b) for a, b in zip(everything, before, strict=True))


def varies(case: Case) -> bool:
    made, tensors, given = plain(case)
    return not torch.equal(call(case, made, *tensors, **given), call(case, made, *tensors, **given))


def keeps(case: Case) -> bool:
    made, (q, k, v), _ = plain(case)
    call(case, made, q, k, v)
    return not torch.equal(call(case, made, q, k + 1, v), call(case, ready(case), q, k + 1, v))


def hangs(case: Case) -> bool:
    def stop(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        case.make()(*draw(2, PRIMES))
    except TimeoutError:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return False


def detached(case: Case) -> bool:
    made, tensors, given = plain(case)
    leaves = [tensor.requires_grad_() for tensor in tensors]
    shape = torch.Size([*tensors[0].shape[:-1], tensors[2].shape[-1]])
    output = output_of(call(case, made, *leaves, **given), shape)
    if not output.requires_grad:
        return True
    return None in torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)


def minds_strides(case: Case) -> bool:
    made, tensors, _ = plain(case)
    axes = (-3, -2) if tensors[0].ndim > 2 else (-2, -1)
    turned = [tensor.transpose(*axes).contiguous().transpose(*axes) for tensor in tensors]
    try:
        return not torch.allclose(call(case, made, *turned), call(case, made, *tensors))
    except RuntimeError:
        return True


def leaves_device(case: Case) -> bool:
    made, tensors, given = plain(case)
    with pytest.raises(RuntimeError, match="device"):
        call(case, made, *(tensor.to("meta") for tensor in tensors), **given)
    return True


def changes_dtype(case: Case) -> bool:
    made, (q, k, v), _ = plain(case)
    output = call(case, made, q, k, v)
    expected = F.scaled_dot_product_attention(q, k, v)
    return output.dtype != q.dtype or distance(output, expected) > 1e-4


def weights_lie(case: Case) -> bool:
    made, (q, k, v), given = plain(case)
    output, weights = call(case, made, q, k, v, **given)
    right = all(distance(*run) < 1e-6 for run in runs(case))
    return right and distance(weights @ v, output) > 1e-3


EVIDENCE = {
    "raises": never_runs,
    "transposed-batch": never_runs,
    "not-done": lambda case: case.make()(*draw(2, PRIMES)) is None,
    "wrong-type": lambda case: not isinstance(case.make()(*draw(2, PRIMES)), (Tensor, tuple)),
    "modifies-input": modifies,
    "random": varies,
    "remembers": keeps,
    "hangs": hangs,
    "detached": detached,
    "contiguity": minds_strides,
    "device": leaves_device,
    "dtype": changes_dtype,
    "weights-differ": weights_lie,
    "square-only": lambda case: never_runs(case) or any(distance(*r) > 1e-3 for r in runs(case)),
}


@pytest.mark.parametrize("case", named(BROKEN))
def test_broken_attention_is_broken(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    if case.cause == "prints":
        list(runs(case))
        assert capsys.readouterr().out
        return
    usual = EVIDENCE.get(case.cause, lambda case: any(distance(*run) > 1e-3 for run in runs(case)))
    assert usual(case)


@pytest.mark.parametrize("case", named(RIGHT))
def test_right_attention_is_right(case: Case) -> None:
    distances = [distance(*run) for run in runs(case)]
    assert distances
    assert max(distances) < 1e-6
    assert not modifies(case)
    assert not detached(case)


# --- the catalogue as a whole ---------------------------------------------------------------------


def test_there_is_enough_of_it() -> None:
    assert len(BROKEN) >= 75
    assert len(RIGHT) >= 32
    assert {case.cause for case in BROKEN} == CAUSES
    assert {case.misconception for case in BROKEN} >= MISCONCEPTIONS
    assert all(case.met and case.misconception for case in BROKEN)


def test_names_are_unique() -> None:
    names = [case.name for case in BROKEN + RIGHT]
    assert len(names) == len(set(names))


def test_docstrings_are_one_sentence_and_the_code_is_short() -> None:
    for case in BROKEN + RIGHT:
        if case.target is nn.MultiheadAttention:
            continue
        docstring = case.target.__doc__
        assert "\n" not in docstring, case.name
        assert docstring.endswith("."), case.name
        assert len(case.source().splitlines()) <= 40, case.name


def test_every_case_belongs_to_a_theme() -> None:
    themes = {theme.__name__ for theme in THEMES} | {nn.MultiheadAttention.__module__}
    assert {case.target.__module__ for case in BROKEN + RIGHT} == themes
