"""The checks of lesson 9: the attention clinic."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab._checks import shape
from attnlab.attention import scaled_dot_product_attention
from attnlab.clinic import Evidence
from attnlab.exercises._answers import Answer, Right, Wrong, first_difference, table, tensor, vector
from attnlab.exercises._examined import Examined, diagnosed
from attnlab.exercises._forms import Case, Check, Opinion, Value, asked, randoms, same

# --- sizes that hide a bug ------------------------------------------------------------------------

LARGEST = 2**22  # numbers in one tensor, so that a check stays quick


def patient_x(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Divide by the root of the number of keys; the lesson shows this function."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[1])
    return scores.softmax(dim=-1) @ value


def five_sizes(value: object) -> tuple[int, ...]:
    """Read N, L, S, E and Ev."""
    read = vector(value)
    if read.shape != (5,):
        count = read.numel() if read.ndim == 1 else f"the shape {shape(read)}"
        raise Wrong(f"Five numbers are asked for, N, L, S, E, Ev; got {count}.")
    if not read.isfinite().all() or (read != read.round()).any():
        raise Wrong("Sizes are whole numbers.")
    if read.min() < 2:
        why = " With one key its weight is 1, whatever the score." if read[2] == 1 else ""
        raise Wrong(f"Each size must be at least 2, and the smallest is {int(read.min())}.{why}")
    if read[0] * read[1:3].max() * read[2:].max() > LARGEST:
        raise Wrong("These sizes make tensors too large for a quick check. Small ones will do.")
    return tuple(int(one) for one in read)


def outputs(sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return what ``patient_x`` and attention give for random inputs."""
    N, L, S, E, Ev = sizes
    inputs = randoms((N, L, E), (N, S, E), (N, S, Ev), dtype=torch.float64)
    return patient_x(*inputs), scaled_dot_product_attention(*inputs)


def are_hiding(sizes: tuple[int, ...]) -> bool:
    """Return whether the two outputs are equal."""
    return same(*outputs(sizes), rtol=0, atol=1e-9)


def as_equal(sizes: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Return whether the sizes are equal wherever the others are."""
    pairs = combinations(range(5), 2)
    return all(sizes[i] == sizes[j] for i, j in pairs if others[i] == others[j])


@Value(
    answer="N, L, S, E, Ev, or a function without arguments that returns them.",
    see="attnlab.clinic.diagnose : tries several sizes, all different.",
    read=five_sizes,
    right=are_hiding,
    near=as_equal,
    slips={
        "You made L and E equal. The key has no axis of queries: what is its axis 1?": (
            (2, 5, 7, 5, 3)
        ),
        "You made N and E equal. N is axis 0 of the key: axes are counted from 0.": (5, 4, 7, 5, 3),
        "You made E and Ev equal. Ev is the width of a value: no score depends on it.": (
            (2, 5, 7, 3, 3)
        ),
        "You made L and S equal. The number of queries changes no score.": (2, 7, 7, 5, 3),
    },
    verified="With random inputs of these sizes, `patient_x` gives the same numbers as attention.",
    otherwise="By which number does it divide at these sizes, and by which should it?",
    evidence=lambda sizes: replace(
        first_difference(*outputs(sizes), ("sequence", "query", "feature")),
        rows=("patient_x", "correct"),
    ),
)
def check_hiding_sizes(sizes: tuple[int, ...]) -> str:
    """Check sizes at which ``patient_x`` of lesson 9 cannot be told from attention.

    Verified: five whole numbers, each at least 2, and the same output for random inputs.
    """
    if are_hiding(sizes):
        return ""
    N, L, S, E, Ev = sizes
    wrong, right = outputs(sizes)
    case = f"query {(N, L, E)}, key {(N, S, E)} and value {(N, S, Ev)}"
    gap = (wrong - right).abs().max()
    return f"With {case} `patient_x` is off by up to {gap:.3g}, and a test sees it."


# --- two bugs -------------------------------------------------------------------------------------


MASKED = "query (2, 5, 11), key (2, 7, 11), value (2, 7, 13) and mask (2, 5, 7)"


@Examined(
    answer="A function of (query, key, value, mask) that returns the output; True = may attend.",
    see="check_mended : the same without a mask.",
    verified=f"The clinic finds nothing wrong, and the outputs match PyTorch's, with {MASKED}.",
    notes=True,
)
def check_mended_mask() -> Iterator[tuple[str, tuple]]:
    """Check attention with a mask with the clinic's probes.

    Verified: all that ``attnlab.clinic.diagnose`` looks for, and the numbers of a batch.
    """
    query, key, value = randoms((2, 5, 11), (2, 7, 11), (2, 7, 13))
    mask = randoms((2, 5, 7), seed=1)[0] > -0.3
    mask[..., 0] = True  # every query has a key
    yield MASKED, (query, key, value, mask)


# --- a probe for gradients ------------------------------------------------------------------------

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
SIZES = {"query": (2, 5, 11), "key": (2, 7, 11), "value": (2, 7, 13)}


def weights_of(query: Tensor, key: Tensor) -> Tensor:
    """Return attention weights."""
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)


def written_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention."""
    return weights_of(query, key) @ value


def frozen_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention through which only the value gets a gradient."""
    return weights_of(query, key).detach() @ value


def frozen_query(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention through which the query gets no gradient."""
    return written_out(query.detach(), key, value)


LEARNS = "A model can learn through it."
READY = f"{LEARNS} Are its inputs those that require a gradient, and does backward() run?"
FUNCTIONS: dict[str, tuple[Attend, bool, str]] = {  # what it is, whether a model can learn, a hint
    "frozen_query": (
        frozen_query,
        False,
        "No gradient reaches the query. That the output has a gradient says only that some input "
        "gets one. Look at `.grad` of each of three fresh inputs.",
    ),
    "attnlab's attention": (scaled_dot_product_attention, True, READY),
    "attention written out": (written_out, True, READY),
    "causal attention": (
        functools.partial(F.scaled_dot_product_attention, is_causal=True),
        True,
        f"{LEARNS} Query 0 sees one key only, and late keys are never seen: single gradients of 0 "
        "are healthy. Does any differ from 0?",
    ),
    "frozen_weights": (frozen_weights, False, "Neither query nor key gets a gradient."),
    "a frozen key": (
        lambda query, key, value: written_out(query, key.detach(), value),
        False,
        "No gradient reaches the key. Look at all three.",
    ),
    "a frozen value": (
        lambda query, key, value: written_out(query, key, value.detach()),
        False,
        "No gradient reaches the value. Look at all three.",
    ),
    "rounded weights": (
        lambda query, key, value: (1e6 * weights_of(query, key)).round() / 1e6 @ value,
        False,
        "A gradient comes back to query and key, and it is 0 everywhere: nothing can be learned "
        "from it. Look at its size as well.",
    ),
    "a detached output": (
        lambda query, key, value: written_out(query, key, value).detach(),
        False,
        "No gradient reaches any of the three.",
    ),
    "frozen_query in a second call": (frozen_query, False, "No gradient reaches the query."),
}


@dataclass
class Calls:
    """What a probe did with the functions that it got."""

    any: bool = False
    with_gradient: bool = False  # some input required a gradient
    apart: bool = False  # query and key were different tensors
    used_again: bool = False  # some input had the gradient of an earlier call

    def watched(self, attend: Attend) -> Attend:
        """Return a function that does the same and notes its calls."""

        @functools.wraps(attend)
        def noted(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            leaves = [one for one in (query, key, value) if one.is_leaf]
            self.any = True
            self.with_gradient |= any(one.requires_grad for one in (query, key, value))
            self.apart |= query is not key
            self.used_again |= any(one.grad is not None and bool(one.grad.any()) for one in leaves)
            return attend(query, key, value)

        return noted

    def explained(self, hint: str) -> str:
        """Return what the calls say of a wrong probe, or else the hint."""
        if not self.any:
            return "It never calls the function that it is given."
        if not self.with_gradient:
            return (
                "No input asks for a gradient, and the numbers are correct, so they cannot show "
                "it. Call requires_grad_() on clones of all three before the function gets them."
            )
        if not self.apart:
            return (
                "One tensor plays query, key and value, so a gradient always reaches it by another "
                "way. Take three tensors."
            )
        if self.used_again:
            return (
                "Gradients add up in `.grad`: those of an earlier function are still there. Begin "
                "with fresh clones."
            )
        return hint


def largest_gradients(attend: Attend) -> dict[str, float]:
    """Return the largest gradient of each input, or NaN where there is none."""
    leaves = [one.requires_grad_() for one in randoms(*SIZES.values(), dtype=torch.float64)]
    output = attend(*leaves)
    if not output.requires_grad:
        return dict.fromkeys(SIZES, math.nan)
    found = torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)
    return {
        part: math.nan if gradient is None else float(gradient.abs().max())
        for part, gradient in zip(SIZES, found, strict=True)
    }


def probe_of(*parts: str) -> Callable[[Attend], bool]:
    """Return a probe that looks at some of the inputs."""
    return lambda attend: all(largest_gradients(attend)[part] > 0 for part in parts)


def gradients(case: Case, _said: dict[str, bool | None]) -> Evidence:
    """Return the largest gradient of each input of a function."""
    found = largest_gradients(case.arguments[0].__wrapped__)
    rows = {f"{part} {SIZES[part]}": [gradient] for part, gradient in found.items()}
    caption = f"Largest gradient of each input, {case.name}; NaN stands for None:"
    return table(caption, rows, ["largest gradient"])


@Opinion(
    answer="A function of an attention function that returns a bool.",
    see="torch.Tensor.requires_grad_ : asks for a gradient.",
    slips={
        "It says the opposite of every function.": lambda attend: not probe_of(*SIZES)(attend),
        **{
            f"It seems to look at the {' and the '.join(parts)} only. Look at all three.": (
                probe_of(*parts)
            )
            for count in (1, 2)
            for parts in combinations(SIZES, count)
        },
    },
    errors={
        "NoneType": "The gradient of an input that was cut off is None, not a tensor: return "
        "False then.",
        "have been used in the graph": "An input that is not in the graph gets no gradient: "
        "return False then.",
        "does not require grad": "Call requires_grad_() on all three inputs before the function "
        "gets them. If the output then has no gradient, return False before backward().",
        "grad can be implicitly created": "backward() starts at one number: square the output "
        "and sum it.",
    },
    verified=(
        "It gives the correct answer for three functions through which a model can learn and for "
        "six through which it cannot."
    ),
    evidence=gradients,
)
def check_learning_probe() -> Iterator[Case]:
    """Check a probe that says whether a model can learn through an attention function.

    Verified: True for attention with and without a causal mask; False where the weights, the output
    or one of query, key and value are cut off, and where gradients are 0.
    """
    calls = Calls()
    for name, (attend, learns, hint) in FUNCTIONS.items():
        why = functools.partial(calls.explained, hint)
        yield Case(name, (calls.watched(attend),), learns, why)


# --- a wrong function that passes -----------------------------------------------------------------

NOTICED = "weak_check notices it."


@Check(
    answer="A function of (query, key, value) that returns the output.",
    see="attnlab.clinic.diagnose : names what is wrong.",
)
def check_disguise(answer: Answer) -> Right:
    """Check a wrong attention function that passes ``weak_check`` of lesson 9.

    Verified: correct numbers for one sequence of ten tokens with 64 features, and a finding of
    ``attnlab.clinic.diagnose``.
    """
    case = "query, key and value (1, 10, 64)"
    inputs = randoms(*3 * [(1, 10, 64)])
    try:
        output = asked(answer, inputs, case, tensor)
    except Wrong as wrong:
        if wrong.by_error:
            wrong.message = f"{NOTICED} {wrong.message}"
        raise
    see_weakly(output, scaled_dot_product_attention(*inputs), case)
    report = diagnosed(answer)
    if report.ok:
        raise Wrong(
            "weak_check passes it, and the clinic finds nothing wrong either. Either it is "
            "correct, or it is wrong only where the clinic does not look. What does weak_check "
            f"never vary? It always takes {case}.",
            report=report,
        )
    if report.ok is None:
        why = "weak_check passes it, but the clinic could not examine it, so it cannot catch it."
        raise Wrong(f"{why} {report.gap or ''} Let it run at every size.", None, report)
    return Right(
        f"It passes weak_check, with {case}, but not the clinic. Run `diagnose` on it to see why.",
        report=report,
    )


def see_weakly(output: Tensor, right: Tensor, case: str) -> None:
    """Raise Wrong if ``weak_check`` notices."""
    about = f"{NOTICED} With {case} the output"
    if output.shape != right.shape:
        raise Wrong(f"{about} must be {shape(right)}, got {shape(output)}.")
    if output.dtype != right.dtype:
        raise Wrong(f"{about} must be {right.dtype}, got {output.dtype}.")
    if not same(output, right, atol=1e-4):
        gap = float((output - right).abs().max())
        why = "Make it correct at exactly these sizes, and wrong at others."
        evidence = first_difference(output, right, ("sequence", "query", "feature"))
        raise Wrong(f"{about} is off by up to {gap:.3g}. {why}", evidence)
