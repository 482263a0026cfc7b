"""The catalogue's modules are broken or right as they say.

A module is held against torch's kernel, fed with the module's own projections, in float64.
"""

import inspect
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.clinic.broken import BROKEN, RIGHT, Case

pytestmark = pytest.mark.filterwarnings("ignore")  # learners' code may warn

N, L, S, D, H = 2, 5, 7, 12, 3  # D and H are those of the cases' arguments
TRIPLES = [("w_q", "w_k", "w_v"), ("queries", "keys", "values"), ("query", "key", "value")]
STACKED = ("c_attn", "w_qkv", "qkv")
PER_HEAD = ("qkv_proj", "qkv_layer")
LAST = ("w_o", "c_proj", "o_proj", "out", "proj", "linear_layer", "out_proj")


def named(cases: tuple[Case, ...], *themes: str) -> list:
    """Return the cases of some themes as pytest parameters."""
    where = {f"attnlab.clinic.broken.{theme}" for theme in themes}
    return [pytest.param(c, id=c.name) for c in cases if c.target.__module__ in where]


# --- modules: what torch makes of the same weights ------------------------------------------------


def layer(module: nn.Module, name: str) -> Callable[[Tensor], Tensor] | None:
    """Return what an attribute does to x: a layer, a list of small layers, or a matrix."""
    held = getattr(module, name, None)
    if isinstance(held, nn.ModuleList):
        return lambda x: torch.cat([one(x) for one in held], dim=-1)
    if isinstance(held, nn.Parameter):
        flat = held.transpose(0, 1).flatten(1) if held.ndim == 3 else held
        return lambda x: x @ flat
    return held


def projected(module: nn.Module, x: Tensor, memory: Tensor) -> list[Tensor]:
    """Return query, key and value as (N, length, features), heads in blocks."""
    if isinstance(module, nn.MultiheadAttention):
        q, k, v = module.in_proj_weight.chunk(3)
        return [x @ q.T, memory @ k.T, memory @ v.T]  # its bias starts at 0
    for name in PER_HEAD:
        if made := layer(module, name):
            return [
                made(y).unflatten(-1, (H, 3, -1))[..., i, :].flatten(2)
                for i, y in enumerate((x, memory, memory))
            ]
    for name in STACKED:
        if made := layer(module, name):
            return [made(y).chunk(3, dim=-1)[i] for i, y in enumerate((x, memory, memory))]
    matrices = [("W_query", "W_key", "W_value"), ("W_Q", "W_K", "W_V")]
    names = next(t for t in TRIPLES + matrices if hasattr(module, t[0]))
    q, k, v = (layer(module, name) for name in names)
    if type(module).__name__ == "NamesExchanged":
        q, k = k, q
    return [q(x), k(memory), v(memory)]


def expected(module: nn.Module, x: Tensor, memory: Tensor | None = None, **how) -> Tensor:
    """Return what the module should give, computed by torch's kernel."""
    module = getattr(module, "attention", module)
    parts = projected(module, x, x if memory is None else memory)
    last = next((made for name in LAST if (made := layer(module, name))), nn.Identity())
    last = layer(module, "W_O") or last
    if not any(hasattr(module, name) for name in (*LAST, "W_O")):  # one head, no last layer
        return F.scaled_dot_product_attention(*parts, **how)
    interleaved = type(module).__name__ == "HeadsInterleaved"
    heads = []
    for part in parts:
        part = part if part.size(-1) == D else part.repeat(1, 1, H)  # one key for all heads
        part = part.unflatten(-1, (-1, H)).mT.flatten(2) if interleaved else part
        heads.append(part.unflatten(-1, (H, -1)).transpose(1, 2))
    output = F.scaled_dot_product_attention(*heads, **how).transpose(1, 2)
    return last((output.mT if interleaved else output).flatten(2))


# --- modules: running them ------------------------------------------------------------------------


def ready(case: Case) -> nn.Module:
    return case.make().double().eval()


def names_of(case: Case) -> list[str]:
    return [name for name in inspect.signature(case.target.forward).parameters if name != "self"]


def draw(length: int = L, n: int = N) -> Tensor:
    return torch.randn(n, length, D, dtype=torch.float64)


def run(case: Case, module: nn.Module, x: Tensor, memory: Tensor | None = None, **more) -> Tensor:
    """Call with x (and the memory where the module takes one), and return the output."""
    inputs = names_of(case)
    first = [name for name in inputs[:3] if name[0] in "qkvx" and name != "key_padding_mask"]
    memory = x if memory is None else memory
    given = {name: x if name[0] in "xq" else memory for name in first}
    if "memory" in inputs:
        given["memory"] = memory
    if case.options.get("batch_first") is False:
        given = {name: value.transpose(0, 1) for name, value in given.items()}
    result = module(**given, **more)
    result = result[0] if isinstance(result, tuple) else result
    return result.transpose(0, 1) if case.options.get("batch_first") is False else result


def settings(case: Case) -> list[tuple[dict, dict]]:
    """Return what the module is given beside its inputs, and what torch's kernel is given."""
    inputs = names_of(case)
    if "is_causal" in inputs and case.target is not nn.MultiheadAttention:
        return [({}, {}), ({"is_causal": True}, {"is_causal": True})]
    if "causal" in case.name.lower() or case.options.get("causal"):
        return [({}, {"is_causal": True})]
    keep = torch.arange(L) < torch.tensor([[L - 1], [L - 2]])
    padding = {"attn_mask": keep[:, None, None, :]}
    if "key_padding_mask" in inputs:
        return [({}, {}), ({"key_padding_mask": ~keep}, padding)]
    name = next((name for name in ("mask", "attn_mask") if name in inputs), None)
    if name is None:
        return [({}, {})]
    if case.name == "SelfAttentionWithPadding" or case.cause == "padding-leak":
        return [({name: keep}, padding)]
    mask = torch.rand(L, L).lt(0.6).logical_or(torch.eye(L) == 1)
    if case.cause == "mask-broadcast":
        mask = mask.expand(H, L, L).clone()
        mask[1] = torch.eye(L) == 1
        return [({name: mask}, {"attn_mask": mask[:, None]})]
    return [({name: mask}, {"attn_mask": mask})]


def distance(output: Tensor, reference: Tensor) -> float:
    if output.shape != reference.shape:
        return float("inf")
    return float((output - reference).abs().max().nan_to_num(torch.inf))


def distances(case: Case) -> list[float]:
    """Return how far the module is from torch in each of its settings."""
    found = []
    for given, how in settings(case):
        module, x = ready(case), draw(n=H if case.cause == "mask-broadcast" else N)
        found.append(distance(run(case, module, x, **given), expected(module, x, **how)))
    return found


# --- modules: evidence by cause -------------------------------------------------------------------


def raises(case: Case) -> bool:
    with pytest.raises(RuntimeError):
        run(case, ready(case), draw())
    return True


def mixes_the_batch(case: Case) -> bool:
    module, x = ready(case), draw()
    changed = torch.cat([x[:1] + 1, x[1:]])
    return distance(run(case, module, x)[1], run(case, module, changed)[1]) > 1e-3


def before_last(case: Case, x: Tensor) -> tuple[Tensor, ...]:
    """Return what each head hands to the last layer."""
    module, seen = ready(case), []
    last = [child for child in module.children() if isinstance(child, nn.Linear)][-1]
    last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    run(case, module, x)
    return seen[0].chunk(H, dim=-1)


def heads_equal(case: Case) -> bool:
    first, *others = before_last(case, draw())
    return all(torch.equal(first, other) for other in others)


def heads_see_a_slice(case: Case) -> bool:
    x = draw()
    changed = torch.cat([x[..., : D // H], x[..., D // H :] + 1], dim=-1)
    torch.manual_seed(1)
    first = before_last(case, x)[0]
    torch.manual_seed(1)
    return torch.equal(first, before_last(case, changed)[0])


def varies(case: Case) -> bool:
    module, x = ready(case), draw()
    return not torch.equal(run(case, module, x), run(case, module, x))


def remembers(case: Case) -> bool:
    module, x = ready(case), draw()
    fresh = run(case, module, x)
    try:
        return not torch.equal(run(case, module, draw(L + 1))[:, :L], fresh) and not torch.equal(
            run(case, module, x), fresh
        )
    except RuntimeError:
        return True


def detached(case: Case) -> bool:
    x = draw().requires_grad_()
    output = run(case, ready(case), x).sum()
    return torch.autograd.grad(output, x, allow_unused=True)[0] is None


def needs_the_cpu(case: Case) -> bool:
    with pytest.raises(RuntimeError, match="device"):
        run(case, ready(case).to("meta"), draw().to("meta"))
    return True


def takes_the_wrong_side(case: Case) -> bool:
    module, x, memory = ready(case), draw(), draw(S)
    return distance(run(case, module, x, memory), expected(module, x, memory)) > 1e-3


def leaks_padding(case: Case) -> bool:
    module, x = ready(case), draw()
    (given, _) = settings(case)[0]
    (name, keep) = next(iter(given.items()))
    alone = run(case, module, x[1:, : L - 2], **{name: keep[1:, : L - 2]})
    return distance(run(case, module, x, **given)[1:, : L - 2], alone) > 1e-3


EVIDENCE = {
    "raises": raises,
    "transposed-batch": raises,
    "batch-first": mixes_the_batch,
    "batch-mixing": mixes_the_batch,
    "heads-shared": heads_equal,
    "heads-from-input": heads_see_a_slice,
    "random": varies,
    "remembers": remembers,
    "detached": detached,
    "device": needs_the_cpu,
    "cross-side": takes_the_wrong_side,
    "padding-leak": leaks_padding,
}


@pytest.mark.parametrize("case", named(BROKEN, "modules_heads", "modules_plain", "modules_masks"))
def test_broken_module_is_broken(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    if case.cause == "prints":
        run(case, ready(case), draw())
        assert capsys.readouterr().out
    else:
        assert EVIDENCE.get(case.cause, lambda case: max(distances(case)) > 1e-3)(case)


RIGHT_MODULES = [
    *[pytest.param(c, id=c.name) for c in RIGHT if c.target is nn.MultiheadAttention],
    *named(RIGHT, "right_modules", "right_masked_modules"),
]


@pytest.mark.parametrize("case", RIGHT_MODULES)
def test_right_module_is_right(case: Case) -> None:
    assert max(distances(case)) < 1e-6
    assert not mixes_the_batch(case) or "mask" in names_of(case)
    assert not varies(case)
    assert not detached(case)
    if {"memory", "key"} & set(names_of(case)):
        assert not takes_the_wrong_side(case)
