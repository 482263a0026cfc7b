"""The checks of lesson 9: the attention clinic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import scaled_dot_product_attention
from attnlab.clinic import Evidence
from attnlab.exercises.frame import voice
from attnlab.exercises.frame.answers import Answer, Either, Right, Wrong, numbers, table, tensor
from attnlab.exercises.frame.examined import Examined, diagnosed
from attnlab.exercises.frame.forms import Case, Compared, Opinion, Value, asked, randoms, same

# --- sizes that hide a bug ------------------------------------------------------------------------

LARGEST = 2**22  # numbers in one tensor, so that a check stays quick


def patient_x(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Divide by the square root of the number of keys; the lesson shows this function."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[1])
    return scores.softmax(dim=-1) @ value


def five_sizes(value: object) -> tuple[int, ...]:
    """Read N, L, S, E and Ev."""
    wanted = "five whole numbers, each at least 2: N, L, S, E, Ev"
    read = numbers(value, (5,), wanted)
    if read.min() < 2 or not read.equal(read.round()):
        why = "With one key, its weight is 1, whatever the score." if read[2] == 1 else ""
        raise Wrong(voice.returned(voice.listed(read.tolist()), wanted, why))
    if read[0] * read[1:3].max() * read[2:].max() > LARGEST:
        raise Wrong("These sizes make tensors too large for a quick check. Small ones will do.")
    return tuple(int(size) for size in read)


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
    read=five_sizes,
    right=are_hiding,
    near=as_equal,
    slips={
        "You made L and E equal. The key has no axis of queries. What is its axis 1?": (
            (2, 5, 7, 5, 3)
        ),
        "You made N and E equal. N is axis 0 of the key, because axes are counted from 0.": (
            (5, 4, 7, 5, 3)
        ),
    },
    verified="With random inputs of these sizes, `patient_x` gives the same numbers as attention.",
    otherwise="By which number does `patient_x` divide at these sizes, and by which number should "
    "it divide?",
)
def check_hiding_sizes(sizes: tuple[int, ...]) -> str:
    """Check sizes at which ``patient_x`` of lesson 9 cannot be told from attention.

    Verified: five whole numbers, each at least 2, and the same output for random inputs.

    Parameters
    ----------
    answer
        N, L, S, E, Ev, or a function without arguments that returns them.

    See Also
    --------
    attnlab.clinic.diagnose : tries several sizes, all different.
    """
    if are_hiding(sizes):
        return ""
    wrong, right = outputs(sizes)
    gap = (wrong - right).abs().max()
    return f"At these sizes, `patient_x` is off by up to {gap:.3g}, so a test can find the bug."


# --- two bugs -------------------------------------------------------------------------------------


ZERO_COUNTS = (
    "A score near 0 blocks nothing, whether you multiply the scores by the mask, add the mask, or "
    "fill in a small number such as 1e-9, because it still gets weight. Set blocked scores to -inf."
)
MASKED = "query (2, 5, 11), key (2, 7, 11), value (2, 7, 13) and mask (2, 5, 7)"


def weights_of(query: Tensor, key: Tensor) -> Tensor:
    """Return attention weights."""
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)


def masked_by(change: Callable[[Tensor, Tensor], Tensor], root: float = 0.5) -> Callable:
    """Return attention whose scores are changed by the ones and zeros of a mask."""
    return lambda query, key, value, mask: (
        change(query @ key.mT / query.shape[-1] ** root, mask).softmax(dim=-1) @ value
    )


@Examined(
    slips={
        "The mask is read the wrong way round. True must mean that a query may attend.": masked_by(
            lambda scores, mask: scores.masked_fill(mask, -torch.inf)
        ),
        ZERO_COUNTS: Either(masked_by(torch.mul), masked_by(torch.add)),
        "Is a mask multiplied by infinity? Zero times infinity is NaN. Use masked_fill.": (
            masked_by(lambda scores, mask: scores - torch.inf * ~mask.bool())
        ),
        "Weights are set to 0 after the softmax, so the rows do not sum to 1. Set blocked scores "
        "to -inf before the softmax.": lambda query, key, value, mask: (
            weights_of(query, key) * mask @ value
        ),
        "The scores are divided by E, not by its square root.": masked_by(
            lambda scores, mask: scores.masked_fill(~mask, -torch.inf), root=1.0
        ),
        f"{ZERO_COUNTS} Besides, the scores are divided by E, not by its square root.": masked_by(
            torch.mul, root=1.0
        ),
    },
    verified=f"The clinic finds nothing wrong, and the outputs match PyTorch's, with {MASKED}.",
)
def check_mended_mask() -> Iterator[tuple[str, tuple]]:
    """Check attention with a mask with the clinic's probes.

    Verified: all that ``attnlab.clinic.diagnose`` looks for, and the numbers of a batch.

    Parameters
    ----------
    answer
        A function of (query, key, value, mask) that returns the output; True = may attend.

    See Also
    --------
    check_mended : the same without a mask.
    """
    query, key, value = randoms((2, 5, 11), (2, 7, 11), (2, 7, 13))
    mask = randoms((2, 5, 7), seed=1)[0] > -0.3
    mask[..., 0] = mask[:, 0] = True  # every query has a key, and one query has all
    yield MASKED, (query, key, value, mask)


# --- a probe for gradients ------------------------------------------------------------------------

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
SIZES = {"query": (2, 5, 11), "key": (2, 7, 11), "value": (2, 7, 13)}


def written_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention."""
    return weights_of(query, key) @ value


def frozen_weights(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention through which only the value gets a gradient."""
    return weights_of(query, key).detach() @ value


def frozen_query(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention through which the query gets no gradient."""
    return written_out(query.detach(), key, value)


LEARNS = (
    "A model can learn through it, although some of the gradients may be 0. For each of the three "
    "inputs, check only that at least one number in its gradient is not 0."
)
FRESH = "Begin with fresh clones of all three inputs, because gradients add up in `.grad`."
FUNCTIONS: dict[str, tuple[Attend, bool, str]] = {  # what it is, whether a model can learn, a hint
    "frozen_query": (
        frozen_query,
        False,
        "No gradient reaches the query. An output has a gradient as soon as some input gets one, "
        "so look at `.grad` of each of three fresh inputs.",
    ),
    "attnlab's attention": (scaled_dot_product_attention, True, LEARNS),
    "attention written out": (written_out, True, LEARNS),
    "causal attention": (partial(F.scaled_dot_product_attention, is_causal=True), True, LEARNS),
    "frozen_weights": (frozen_weights, False, f"Neither query nor key gets a gradient. {FRESH}"),
    "a function that freezes the key": (
        lambda query, key, value: written_out(query, key.detach(), value),
        False,
        f"No gradient reaches the key. {FRESH}",
    ),
    "a function that freezes the value": (
        lambda query, key, value: written_out(query, key, value.detach()),
        False,
        f"No gradient reaches the value. {FRESH}",
    ),
    "a function that rounds its weights": (
        lambda query, key, value: (1e6 * weights_of(query, key)).round() / 1e6 @ value,
        False,
        "A gradient comes back to query and key, but it is 0 everywhere, so nothing can be learned "
        "from it. Look at its size as well.",
    ),
    "a function that detaches its output": (
        lambda query, key, value: written_out(query, key, value).detach(),
        False,
        "No gradient reaches any of the three inputs.",
    ),
    "frozen_query in a second call": (
        frozen_query,
        False,
        f"No gradient reaches the query. {FRESH}",
    ),
}


def largest_gradients(attend: Attend) -> dict[str, float]:
    """Return the largest gradient of each input, or NaN where there is none."""
    leaves = [x.requires_grad_() for x in randoms(*SIZES.values(), dtype=torch.float64)]
    output = attend(*leaves)
    if not output.requires_grad:
        return dict.fromkeys(SIZES, math.nan)
    gradients = torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)
    return {
        part: math.nan if gradient is None else float(gradient.abs().max())
        for part, gradient in zip(SIZES, gradients, strict=True)
    }


def probe_of(*parts: str) -> Callable[[Attend], bool]:
    """Return a probe that looks at some of the inputs."""
    return lambda attend: all(largest_gradients(attend)[part] > 0 for part in parts)


def gradients(case: Case) -> Evidence:
    """Return the largest gradient of each input of a function."""
    largest = largest_gradients(case.arguments[0])
    rows = {f"{part} {SIZES[part]}": [gradient] for part, gradient in largest.items()}
    caption = f"Largest gradient of each input, {case.name}; NaN stands for None:"
    return table(caption, rows, ["largest gradient"])


@Opinion(
    slips={
        "It gives the same answer for every function that we tried. Call backward(), and look at "
        "the sizes, not the sums, of the gradients of all three inputs.": Either(
            lambda attend: True, lambda attend: False
        ),
        "Your function seems to look only at some of the gradients. Look at the gradients of all "
        "three inputs.": Either(
            *(probe_of(*parts) for count in (1, 2) for parts in combinations(SIZES, count))
        ),
    },
    errors={
        **dict.fromkeys(
            ("NoneType", "have been used in the graph"),
            "An input that was cut off gets no gradient, so return False in that case.",
        ),
        "does not require grad": "If all three inputs ask for a gradient, with requires_grad_(), "
        "and the output still has none, nothing can be learned. In that case, return False before "
        "backward().",
        "grad can be implicitly created": "backward() starts at a single number, so square the "
        "output and sum it.",
    },
    verified=(
        "Your probe gives the correct answer for three functions through which a model can learn "
        "and for six through which it cannot."
    ),
    evidence=gradients,
)
def check_learning_probe() -> Iterator[Case]:
    """Check a probe that says whether a model can learn through an attention function.

    Verified: True for attention with and without a causal mask; False where the weights, the output
    or one of query, key and value are cut off, and where gradients are 0.

    Parameters
    ----------
    answer
        A function of an attention function that returns a bool.

    See Also
    --------
    torch.Tensor.requires_grad_ : asks for a gradient.
    """
    for name, (attend, learns, hint) in FUNCTIONS.items():
        yield Case(name, (attend,), learns, hint)


# --- a wrong function that passes -----------------------------------------------------------------


def patient_d(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Take the exponentials of scores of any size; the lesson shows this function."""
    exponentials = (query @ key.mT / math.sqrt(query.shape[-1])).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True) @ value


NOT_NEW = "Write a function with another bug."


@dataclass(frozen=True, kw_only=True)
class Disguise(Compared):
    """A check of a function that is correct in some cases, and in which the clinic finds a bug."""

    def decide(self, body: Callable, answer: Answer) -> Right:
        """Compare the numbers, and then ask the clinic."""
        try:
            right = super().decide(body, answer)
        except Wrong as wrong:
            if wrong.message != voice.NOT_A_FUNCTION:
                wrong.message = f"weak_check catches your function. {wrong.message}"
            raise
        if told := self._patient(answer):
            raise Wrong(told)
        report = diagnosed(answer)
        if report.ok:
            raise Wrong(
                "Your function passes weak_check, but the clinic finds nothing wrong either. It is "
                "correct, or it is wrong only where the clinic does not look. What does weak_check "
                "never vary?",
                report=report,
            )
        if report.ok is None:
            raise Wrong(
                "Your function passes weak_check, but the clinic could not examine it. "
                f"{report.gap.why}",
                report=report,
            )
        return replace(right, report=report)

    def _patient(self, answer: Answer) -> str | None:
        """Return what to say if an answer gives the same numbers as patient C or D."""
        cases = (
            randoms((2, 5, 11), (2, 7, 11), (2, 7, 3)),
            randoms((3, 4, 100), (3, 12, 100), (3, 12, 13)),
            tuple(100 * part for part in randoms((2, 5, 11), (2, 7, 11), (2, 7, 3))),
        )
        try:
            given = [asked(answer, case, "", tensor) for case in cases]
        except Wrong:  # it does not run at these sizes, but the patients do
            return None
        return answer.slip(
            lambda patient: all(map(same, given, [patient(*case) for case in cases]))
        )


@Disguise(
    right=F.scaled_dot_product_attention,
    slips={  # two of the patients that pass weak_check; the lesson shows them
        f"This is patient C, which divides by 8 at every size. {NOT_NEW}": (
            lambda query, key, value: (query @ key.mT / 8).softmax(dim=-1) @ value
        ),
        "This is patient D, whose exponentials overflow if the numbers are large. "
        f"{NOT_NEW}": patient_d,
    },
    otherwise="Make your function correct at exactly these sizes, and wrong at others.",
    axes=("sequence", "query", "feature"),
    atol=1e-4,
    keeps_dtype=True,
    verified="Your function passes weak_check, with query, key and value (1, 10, 64), and the "
    "clinic catches it. Run `diagnose` on it to see why.",
)
def check_disguise() -> Iterator[tuple[str, tuple]]:
    """Check a wrong attention function that passes ``weak_check`` of lesson 9.

    Verified: correct numbers for one sequence of ten tokens with 64 features, a finding of
    ``attnlab.clinic.diagnose``, and other numbers than those of patients C and D.

    Parameters
    ----------
    answer
        A function of (query, key, value) that returns the output.

    See Also
    --------
    attnlab.clinic.diagnose : names what is wrong.
    """
    yield "query, key and value (1, 10, 64)", randoms(*3 * [(1, 10, 64)])
