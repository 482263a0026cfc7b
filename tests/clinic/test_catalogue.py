"""The catalogue itself: broken entries are broken and correct ones correct, without the clinic.

What replaces steps of a template is held against the template, everything else against torch.
Which cause is found first is tested elsewhere.
"""

import contextlib
import inspect
import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab._bounded import Limit, OutOfTime, _within
from attnlab.clinic._causes import CAUSES
from attnlab.clinic.broken import BROKEN, RIGHT, THEMES, Case, heads, styles
from attnlab.clinic.broken import _templates as templates
from attnlab.clinic.broken._templates import Steps

pytestmark = pytest.mark.filterwarnings("ignore")  # learners' code may warn

PRIMES, EQUAL = (2, 3, 5, 7, 11, 13), (3, 3, 5, 5, 7, 7)  # N, H, L, S, E, Ev
N, L, S = 3, 5, 7  # of layers: as many sequences as most of them have heads


class Trial(NamedTuple):
    """A call and what it should give; ``make`` returns what is called in its initial state."""

    make: Callable[[], Callable]
    given: dict[str, object]
    expected: Tensor

    def run(self, made: Callable | None = None, **changed: object) -> object:
        given = {n: v.clone() if isinstance(v, Tensor) else v for n, v in self.given.items()}
        return (made or self.make())(**given | changed)

    def output(self, made: Callable | None = None, **changed: object) -> Tensor:
        result = self.run(made, **changed)
        parts = result if isinstance(result, tuple) else (result,)
        return next((p for p in parts if getattr(p, "shape", 0) == self.expected.shape), parts[0])

    def state(self) -> str:
        """Return how the call ends: "correct", "wrong" or "raises"."""
        try:
            output = _within(Limit(0.2), self.output)  # seconds
        except (Exception, OutOfTime):
            return "raises"
        same_type = isinstance(output, Tensor) and output.dtype == self.expected.dtype
        return "correct" if same_type and distance(output, self.expected) < 1e-4 else "wrong"

    def sides(self) -> dict[str, Tensor]:
        """Return the tensors that are not masks."""
        tensors = {n: t for n, t in self.given.items() if isinstance(t, Tensor)}
        return {n: t for n, t in tensors.items() if t.is_floating_point() and "mask" not in n}


def distance(output: Tensor, expected: Tensor) -> float:
    """Return the largest difference; infinite for another shape or NaN."""
    if output.shape != expected.shape:
        return float("inf")
    return float((output - expected).abs().max().nan_to_num(torch.inf))


def names_of(made: Callable) -> list[str]:
    return list(inspect.signature(getattr(made, "forward", made)).parameters)


def as_given(case: Case, name: str, keep: Tensor) -> Tensor:
    """Return a mask in the convention that its name or the case says."""
    if case.options.get("mask") == "additive" or case.name == "AdditiveMask":
        return torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -torch.inf)
    blocked = case.options.get("mask") == "blocked" or name == "key_padding_mask"
    return ~keep if blocked else keep


def of_kind(cases: tuple[Case, ...], *kinds: str) -> list:
    return [pytest.param(case, id=case.name) for case in cases if case.kind in kinds]


# --- functions: what torch's kernel gives ---------------------------------------------------------


def draw(axes: int, sizes: tuple[int, ...], size: float) -> dict[str, Tensor]:
    n, num_heads, length, keys, width, value_width = sizes
    lead = (n, num_heads)[: axes - 2]
    shapes = {"q": (length, width), "k": (keys, width), "v": (keys, value_width)}
    drawn = {n: torch.randn(*lead, *shape, dtype=torch.float64) for n, shape in shapes.items()}
    return drawn | {"q": drawn["q"] * size}


def settings(case: Case, names: list[str], sides: dict) -> Iterator[tuple[dict, dict]]:
    """Yield what a function is given beside query, key and value, and what torch is given."""
    query, keys = sides["q"], sides["k"].shape[-2]
    if case.template is templates.causal or case.options.get("causal"):
        yield {}, {"is_causal": True}
        return
    if "is_causal" in names:
        yield {"is_causal": True}, {"is_causal": True}
    mask = next((name for name in names if "mask" in name), None)
    if mask == "key_padding_mask" and query.ndim > 2:
        keep = torch.arange(keys) < torch.arange(keys - 1, keys - 1 - len(query), -1)[:, None]
        whole = keep.view(len(query), *[1] * (query.ndim - 2), keys)
        yield {mask: as_given(case, mask, keep)}, {"attn_mask": whole}
    elif mask and mask != "key_padding_mask":
        lead = query.shape[:1] if case.cause == "mask-broadcast" and query.ndim > 2 else ()
        keep = torch.rand(*lead, query.shape[-2], keys) < 0.6
        keep[..., 0] = True
        keep[..., 1, :] &= not case.options.get("strict")
        whole = keep.unsqueeze(1) if lead and query.ndim == 4 else keep
        yield {mask: as_given(case, mask, keep)}, {"attn_mask": whole}
    if mask != "attn_mask":
        yield {}, {}


def function_trials(case: Case) -> Iterator[list[Trial]]:
    """Yield calls in groups of an equal number of axes: a function may take one number only."""
    names = names_of(case.make())
    large = 300.0 if case.cause == "mask-finite" else 1.0
    for axes in (2, 3, 4):
        group = []
        for sizes in (PRIMES, EQUAL):
            sides = draw(axes, sizes, large)
            given = {name: sides[name[0].lower()] for name in names if name[0] in "qkvQKV"}
            given.pop("key_padding_mask", None)
            for more, of_torch in settings(case, names, sides):
                expected = F.scaled_dot_product_attention(*sides.values(), **of_torch)
                group.append(Trial(partial(prepared, case, {}), given | more, expected))
        yield group


# --- layers: what their template gives, or torch's kernel -----------------------------------------

SIDES = (
    ("q_proj", "k_proj", "v_proj", "out_proj"),
    ("queries", "keys", "values", "fc_out"),
    ("W_q", "W_k", "W_v", "W_o"),
    ("W_query", "W_key", "W_value", None),
    ("W_Q", "W_K", "W_V", "W_O"),
    ("query", "key", "value", None),
)
KEYS, VALUES = ("key", "keys", "memory", "context"), ("value", "values")
CAUSAL = tuple(
    getattr(templates, name) for name in "CausalLayer FlaggedLayer StackedLayer SmallHead".split()
)
PADDED = (templates.PaddedLayer, styles.KeysAndValuesStacked, styles.LengthsForHeads)
BY_TORCH = {"SelfAttentionOfTorch", "StackOfEncoders", "OwnEncoder", "OppositeEncoder"}
BY_TORCH |= {"TorchWithBatchFirst"}
OTHER_ATTENTION = set(  # correct, and meant to compute something else than the template
    """Layer.HeadsInterleaved Layer.names_exchanged Layer.rotated_by_position
    CausalLayer.causal_window CausalLayer.linear_biases
    StackedLayer.stacked_inside_each_head PaddedLayer.padding_hidden_on_both_sides
    LayerWithBatchNorm PositionedLayer""".split()
)
OTHER_IN_TRAINING = {"DropoutByHand", "Layer.dropout_by_number", "LayerWithBatchNorm"}
TWINS = {"CausalByNameOnly": templates.CausalLayer}


def projected(layer: nn.Module, x: Tensor, key: Tensor, value: Tensor) -> tuple[list, object]:
    """Return query, key and value (N, length, features), and what comes last."""
    if isinstance(layer, heads.ListOfHeads):
        sides = ("query", "key", "value")
        parts = [torch.cat([getattr(h, s)(x) for h in layer.heads], dim=-1) for s in sides]
        return parts, layer.proj
    if hasattr(layer, "c_attn"):
        return layer.c_attn(x).chunk(3, dim=-1), layer.c_proj
    if hasattr(layer, "to_kv"):
        return [layer.to_q(x), *layer.to_kv(key).chunk(2, dim=-1)], layer.to_out
    if hasattr(layer, "linears"):
        *sides, last = layer.linears
    else:
        names = next(names for names in SIDES if hasattr(layer, names[0]))
        *sides, last = (getattr(layer, name or "", None) for name in names)
    return [applied(side, y) for side, y in zip(sides, (x, key, value), strict=True)], last


def applied(part: object, x: Tensor) -> Tensor:
    """Return what a layer, a matrix or one matrix for each head makes of x."""
    if not isinstance(part, Tensor):
        return x if part is None else part(x)
    return x @ (part.transpose(0, 1).flatten(1) if part.ndim == 3 else part)


def of_torch(layer: nn.Module, x: Tensor, key: Tensor, value: Tensor, mask) -> Tensor:
    """Return what torch's kernel gives with the parameters of a layer."""
    if isinstance(layer, templates.ResidualLayer):
        residual, x = x, layer.norm(x)
        return residual + applied_torch(layer, x, x, x, mask)
    return applied_torch(layer, x, key, value, mask)


def applied_torch(layer: nn.Module, x: Tensor, key: Tensor, value: Tensor, mask) -> Tensor:
    parts, last = projected(layer, x, key, value)
    counts = (getattr(layer, name, 1) for name in ("num_heads", "n_head", "h", "heads"))
    count = max(n if isinstance(n, int) else len(n) for n in counts)
    count = len(layer.W_Q) if hasattr(layer, "W_Q") else count
    width = parts[0].shape[-1] // count
    cut = (part.unflatten(-1, (-1, width)).transpose(1, 2) for part in parts)
    cut = (part.repeat_interleave(count // part.shape[1], dim=1) for part in cut)
    output = F.scaled_dot_product_attention(*cut, attn_mask=mask).transpose(1, 2).flatten(2)
    return applied(last.flatten(0, 1) if isinstance(last, Tensor) else last, output)


def twin_of(case: Case) -> Callable:
    """Return the correct layer of which a case is a changed copy, or the case itself."""
    if case.template is templates.of_itself:
        return case.template(Steps())
    if case.template or case.name in TWINS:
        return TWINS.get(case.name, case.template)(**case.arguments).double().eval()
    if case.cause is not None:
        whole = [one for one in RIGHT if one.template is None and one.kind == "layer"]
        bases = inspect.getmro(case.target)
        case = min(
            (one for one in whole if one.target in bases), key=lambda one: bases.index(one.target)
        )
    return case.make().double().eval()


def masks_of(case: Case, twin: Callable, keys: int) -> tuple[Tensor, Tensor]:
    """Return a mask as the twin takes it, and as torch's kernel takes it."""
    if isinstance(twin, CAUSAL) or case.options.get("causal"):
        keep = torch.ones(L, keys).tril() == 1
        return keep, keep
    if isinstance(twin, PADDED):
        keep = torch.arange(keys) < torch.tensor([[keys - 1], [keys - 2], [keys - 3]])
        return keep, keep[:, None, None, :]
    apart = case.cause == "mask-broadcast" or isinstance(twin, templates.AnnotatedLayer)
    keep = (torch.rand(*[N] * apart, L, keys) < 0.6) | (torch.arange(keys) == 0)
    keep[..., 1, :] &= not case.options.get("strict")
    return keep, keep[:, None] if apart else keep


def arguments(case: Case, names: list[str], sides: tuple[Tensor, ...], keep: Tensor | None) -> dict:
    """Return the arguments of a layer by name; ``keep`` is None for a call without a mask."""
    x, key, value = sides
    told = case.options.get("causal", False)
    flag = templates.FlaggedLayer in (case.template, case.target) or case.cause == "raises" or told
    given = {}
    for name in names:
        if name in ("is_causal", "output_attentions"):
            given[name] = flag and keep is not None
        elif name == "valid_lens":
            given[name] = None if keep is None else keep.sum(dim=-1)
        elif "mask" in name:
            given[name] = None if keep is None or told else as_given(case, name, keep)
        else:
            given[name] = key if name in KEYS else value if name in VALUES else x
    if case.options.get("batch_first") is False:
        given = {name: side.transpose(0, 1) for name, side in given.items()}
    return given


def takes_a_mask(names: list[str]) -> bool:
    return any("mask" in name or name in ("valid_lens", "is_causal") for name in names)


def layer_trials(case: Case) -> Iterator[Trial]:
    """Yield a call with a mask, where the layer takes one, and one without."""
    twin = twin_of(case)
    names, theirs = names_of(case.make()), names_of(twin)
    x = torch.randn(N, L, width_of(twin), dtype=torch.float64)
    crossed = {*names} & {*KEYS} and case.cause not in ("batch-first", "mask-transposed")
    key = torch.randn(N, S, x.shape[-1], dtype=torch.float64) if crossed else x
    sides = x, key, key.flip(1) if {*names} & {*VALUES} else key
    keep, whole = masks_of(case, twin, key.shape[1])
    always = isinstance(twin, CAUSAL) and not isinstance(twin, templates.FlaggedLayer)
    state = dict(twin.named_parameters()) if isinstance(twin, nn.Module) else {}
    for masked in (True, False) if takes_a_mask(names) or case.options.get("causal") else (False,):
        if case.cause is None and case.template is None:
            expected = of_torch(twin, *sides, whole if masked or always else None)
        else:
            apart = case.cause == "mask-broadcast" and isinstance(twin, templates.MaskedLayer)
            plain = Case("twin", twin, None, "layer", {}, {}, case.template)
            mask = (whole if apart else keep) if masked else None
            expected = first(twin(**arguments(plain, theirs, sides, mask)))
        given = arguments(case, names, sides, keep if masked else None)
        if case.options.get("batch_first") is False:
            expected = expected.transpose(0, 1)
        yield Trial(partial(prepared, case, state), given, expected)


def prepared(case: Case, state: dict[str, Tensor]) -> Callable:
    made = case.make()
    if isinstance(made, nn.Module):
        made = made.double().eval()
        made.load_state_dict(state, strict=False)
    return made


def first(result: object) -> object:
    return result[0] if isinstance(result, tuple) else result


def width_of(layer: Callable) -> int:
    """Return the number of features that a layer takes."""
    if not isinstance(layer, nn.Module):
        return 12
    linear = next((part for part in layer.modules() if isinstance(part, nn.Linear)), None)
    return next(layer.parameters()).shape[-2] if linear is None else linear.in_features or 12


# --- broken or correct ----------------------------------------------------------------------------


def groups_of(case: Case) -> list[list[Trial]]:
    return [*function_trials(case)] if case.kind == "function" else [[*layer_trials(case)]]


def misbehaviour(trial: Trial) -> Iterator[str]:
    """Yield the names of what is wrong beside the numbers."""
    made, sides = trial.make(), trial.sides()
    given = {n: v.clone() if isinstance(v, Tensor) else v for n, v in trial.given.items()}
    with contextlib.redirect_stdout(io.StringIO()) as written:
        made(**given)
        expected = trial.output()
        again = trial.output()
    if written.getvalue():
        yield "prints"
    if any(not v.equal(given[n]) for n, v in trial.given.items() if isinstance(v, Tensor)):
        yield "modifies-input"
    if not torch.equal(expected, again):
        yield "random"
    for change in (lambda t: t * 2, lambda t: t[..., 1:, :]):
        used = trial.make()
        with contextlib.suppress(RuntimeError):  # a mask may not fit fewer tokens
            trial.run(used, **{name: change(side) for name, side in sides.items()})
        if not agrees(trial, expected, used):
            yield "remembers"
    axes = (-3, -2) if next(iter(sides.values())).ndim > 2 else (-2, -1)
    turned = {n: t.transpose(*axes).contiguous().transpose(*axes) for n, t in sides.items()}
    if not agrees(trial, expected, trial.make(), **turned):
        yield "contiguity"
    if detached(trial):
        yield "detached"
    if needs_the_cpu(trial):
        yield "device"
    if isinstance(made, nn.Module):
        used = trial.make().train()
        for part in used.modules():
            part.p = 0.0 if isinstance(part, nn.Dropout) else getattr(part, "p", None)
        if not agrees(trial, expected, used):
            yield from ("train-eval", "causal-eval")


def agrees(trial: Trial, expected: Tensor, made: Callable, **changed: Tensor) -> bool:
    try:
        return distance(trial.output(made, **changed), expected) < 1e-6
    except RuntimeError:
        return False


def detached(trial: Trial) -> bool:
    made = trial.make()
    leaves = {name: side.clone().requires_grad_() for name, side in trial.sides().items()}
    output = trial.output(made, **leaves)
    every = [*leaves.values(), *(made.parameters() if isinstance(made, nn.Module) else ())]
    if not output.requires_grad:
        return True
    return None in torch.autograd.grad(output.square().sum(), every, allow_unused=True)


def needs_the_cpu(trial: Trial) -> bool:
    made = trial.make()
    made = made.to("meta") if isinstance(made, nn.Module) else made
    elsewhere = {n: t.to("meta") for n, t in trial.given.items() if isinstance(t, Tensor)}
    try:
        trial.run(made, **elsewhere)
    except RuntimeError as error:
        return "device" in str(error)
    return False


def weights_lie(trial: Trial) -> bool:
    output, weights = trial.run()
    if len(trial.given) > 1:
        return distance(weights @ [*trial.sides().values()][2], output) > 1e-3
    twin = templates.WeightsLayer().double()
    twin.load_state_dict(trial.make().state_dict())
    return distance(weights, trial.run(twin)[1]) > 1e-3


def heads_of(case: Case, x: Tensor) -> tuple[Tensor, ...]:
    """Return what each head gives to the last layer."""
    torch.manual_seed(1)
    layer, seen = case.make(), []
    last = [part for part in layer.children() if isinstance(part, nn.Linear)][-1]
    last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    layer(x)
    return seen[0].chunk(3, dim=-1)


def heads_equal(case: Case) -> bool:
    one, *others = heads_of(case, torch.randn(N, L, 12))
    return all(torch.equal(one, other) for other in others)


def heads_see_a_slice(case: Case) -> bool:
    x = torch.randn(N, L, 12)
    changed = torch.cat([x[..., :4], x[..., 4:] + 1], dim=-1)
    return torch.equal(heads_of(case, x)[0], heads_of(case, changed)[0])


HEADS = {"heads-shared": heads_equal, "heads-from-input": heads_see_a_slice}
BESIDE_THE_NUMBERS = set(
    """prints modifies-input random remembers contiguity detached device train-eval
    causal-eval""".split()
)
OWN = tuple(  # what only wraps a layer of torch is correct by definition
    case
    for case in RIGHT
    if not case.target.__module__.startswith("torch.") and case.name not in BY_TORCH
)


@pytest.mark.parametrize("case", of_kind(BROKEN, "function", "layer"))
def test_broken_attention_is_broken(case: Case) -> None:
    if case.cause in HEADS:
        assert HEADS[case.cause](case)
        return
    groups = [[(trial, trial.state()) for trial in group] for group in groups_of(case)]
    usable = [trial for group in groups for trial, state in group if state != "raises"]
    if case.cause in BESIDE_THE_NUMBERS:
        assert any(case.cause in misbehaviour(trial) for trial in usable)
    elif case.cause == "weights-differ":
        assert weights_lie(usable[0])
    else:
        states = [{state for _, state in group} for group in groups]
        assert "wrong" in set.union(*states) or {"correct"} not in states


@pytest.mark.parametrize("case", of_kind(OWN, "function", "layer"))
def test_correct_attention_is_correct(case: Case) -> None:
    trials = [(trial, trial.state()) for group in groups_of(case) for trial in group]
    if case.name not in OTHER_ATTENTION:
        assert {"correct"} <= {state for _, state in trials} <= {"correct", "raises"}
    usable = next(trial for trial, state in trials if state != "raises")
    allowed = {"train-eval", "causal-eval"} if case.name in OTHER_IN_TRAINING else set()
    assert {*misbehaviour(usable)} <= allowed


# --- pairs, builders and softmaxes ----------------------------------------------------------------


def head_distances(case: Case) -> list[float]:
    """Return how far split, merge and the round trip are from those of torch's views."""
    made = case.make()
    split, merge = made if case.kind == "pair" else (made, made)
    merge = partial(merge, num_heads=3) if len(names_of(merge)) > 1 else merge
    x = torch.arange(2 * 5 * 12.0).view(2, 5, 12)
    cut = x.unflatten(-1, (3, -1)).transpose(1, 2).contiguous()
    found = [] if case.kind == "merge" else [distance(split(x, 3), cut)]
    found += [] if case.kind == "split" else [distance(merge(cut), x)]
    return [*found, distance(merge(split(x, 3)), x)] if case.kind == "pair" else found


def heads_are_correct(case: Case) -> bool:
    found = head_distances(case)
    if case.cause in ("split-and-merge", "batch-mixing"):
        assert found[-1] == 0  # a round trip does not see it
    return max(found) == 0


def mask_is_correct(case: Case) -> bool:
    made = case.make()
    lengths = torch.tensor([4, 2])
    if names_of(made)[0] == "lengths":
        pairs = [(made(lengths, 5), torch.arange(5) < lengths[:, None])]
    else:
        sizes = [(5,), (5, 7)][: len(names_of(made))]
        pairs = [(made(*size), torch.ones(size[0], size[-1]).tril() == 1) for size in sizes]
    return all(mask.dtype == torch.bool and mask.equal(keep) for mask, keep in pairs)


def softmax_is_correct(case: Case) -> bool:
    """Return whether a softmax is correct for small, large and distant rows, and differentiable."""
    softmax = case.make()
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor([[0.0], [1000.0], [2000.0], [-900.0], [1.0]], dtype=torch.float64)
    for scores in (x * 3, x + rows, x * rows):
        before = scores.detach().clone()
        result = softmax(scores)
        if result.dtype != scores.dtype or distance(result, before.softmax(dim=-1)) > 1e-6:
            return False
        if not scores.detach().equal(before) or not result.requires_grad:
            return False
    return True


PARTS = {
    **dict.fromkeys(("pair", "split", "merge"), heads_are_correct),
    "builder": mask_is_correct,
    "softmax": softmax_is_correct,
}


@pytest.mark.parametrize("case", of_kind(BROKEN + RIGHT, *PARTS))
def test_a_part_is_broken_or_correct(case: Case) -> None:
    try:
        correct = PARTS[case.kind](case)
    except RuntimeError:  # of view, or of sizes that do not fit
        correct = False
    assert correct == (case.cause is None)


# --- the catalogue as a whole ---------------------------------------------------------------------


def test_there_is_enough_of_it() -> None:
    assert len(BROKEN) >= 250
    assert len(RIGHT) >= 100
    of_no_case = {"mask-leak", "not-attention", "not-callable", "slow"}
    assert {case.cause for case in BROKEN} == CAUSES.keys() - of_no_case


def test_names_are_unique() -> None:
    names = [case.name for case in BROKEN + RIGHT]
    assert len(names) == len(set(names))


def test_every_case_belongs_to_a_theme() -> None:
    known = {theme.__name__ for theme in THEMES} | {templates.__name__}
    others = {case.target for case in BROKEN + RIGHT if case.target.__module__ not in known}
    assert all(target.__module__.startswith("torch.") for target in others)


def test_a_source_shows_the_step_and_its_template() -> None:
    case = next(case for case in BROKEN if case.name == "Layer.unscaled")
    lines = case.source().splitlines()
    assert lines[0] == "def unscaled(self, query, key):"
    assert "class Layer(Steps, nn.Module):" in lines
    assert "@broken" not in case.source()
    whole = next(case for case in BROKEN if case.name == "softmax_over_axis_one")
    assert whole.source().startswith("def softmax_over_axis_one(q, k, v):")
