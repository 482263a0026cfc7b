"""Examine an nn.Module, or a plain self-attention function of one tensor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import nn

from attnlab._bounded import name_of
from attnlab.clinic import behaviour
from attnlab.clinic._copying import copy_of, dtype_of
from attnlab.clinic._results import Options, Results
from attnlab.clinic.layers.anatomy import attentions
from attnlab.clinic.layers.calls import Reply, Subject
from attnlab.clinic.layers.heads import examine_heads
from attnlab.clinic.layers.masks import examine_masks
from attnlab.clinic.layers.modes import examine_modes
from attnlab.clinic.layers.plans import Plan, Sizes, is_lazy, plans, sizes_of
from attnlab.clinic.layers.probes import examine_batch, examine_positions
from attnlab.clinic.layers.sides import examine_sides

OURS = re.compile(  # what a wrong guess of sizes or arguments makes torch and Python say
    r"shapes? cannot be multiplied|size mismatch|expected input|Given |normalized_shape|NoneType|"
    r"must match|argument #1 'indices'|scalar types|missing \d|unexpected keyword|multiple values|"
    r"Dimension out of range|Expected .*[dD]imension|don't multiply up|not enough values|subscript|"
    r"too many values|invalid for input of size|not callable|not subscriptable|mat1 and mat2|"
    r"required argument|has no attribute|divisible|out of range|compiled|too (long|short)|exceed|"
    r"must be equal"
)
INSIDE = re.compile(r"attn|attention", re.IGNORECASE)


def examine_module(module: object, options: Options, results: Results) -> None:
    """Report what is wrong with a layer in eval mode.

    Parameters
    ----------
    module : nn.Module or callable
        Takes x, (x, mask), (x, context) or (query, key, value).
    options : Options
        What ``diagnose`` was told.
    results : Results
        Receives findings, notes and properties.
    """
    subject = find_call(module, options, results)
    if subject is None:
        return

    def safely(probe: Callable, *arguments: object) -> object:
        try:
            return probe(*arguments, results)
        except Exception as error:  # what it returned fits no probe
            what = probe.__name__.removeprefix("examine_").replace("_", " ")
            results.failed(error, f"Not everything could be checked, the probe of {what} failed")
            return None

    steady = safely(behaviour.examine_steadiness, subject) is not False
    if steady and safely(behaviour.examine_memory, subject) is not False:
        _examine_numbers(in_float64(subject) or subject, safely, options, results)
        if not results.findings:
            safely(behaviour.examine_finite, subject)
        safely(behaviour.examine_behaviour, subject)
    safely(behaviour.examine_watch, subject)
    if subject.caller.out_of_time and not results.has("hangs", "slow"):
        limit = subject.caller.time_limit
        results.unexamined(
            f"One call computed for longer than {limit:g} s: not everything could be checked."
        )


def _examine_numbers(exact: Subject, safely: Callable, options: Options, results: Results) -> None:
    """Look at what a layer computes: its sequences, its heads, who sees whom, its masks."""
    found = safely(lambda _: attentions(exact, exact.x())) or []
    if any(one.law is None for one in found):  # it may explain that sequences mix
        safely(examine_heads, found)
    safely(examine_batch, exact)
    if results.has("batch-mixing", "batch-first", "softmax-axis"):
        return
    known = safely(examine_heads, found)
    safely(examine_modes, exact)
    safely(examine_positions, exact, options, known)
    safely(examine_sides, exact)
    safely(examine_masks, exact, known, options)


def in_float64(subject: Subject) -> Subject | None:
    """Return the subject in float64, or None if it cannot compute there."""
    exact = subject.again(dtype=torch.float64)
    reply = None if exact is None else exact(exact.x())
    if reply is None or reply.output.dtype != torch.float64:
        return None
    exact.pristine = copy_of(exact.module) if exact.module is not None else exact.layer
    trace = exact.traced(exact.x(1))
    exact.single = trace is not None and trace.single
    return exact


# --- the first call -------------------------------------------------------------------------------


def find_call(module: object, options: Options, results: Results) -> Subject | None:
    """Return the module with a call that works, or None with the reason on the results."""
    guesses = sizes_of(module, options)
    if not guesses:
        results.unexamined("No size of its input was found.", remedy="Pass embed_dim=...")
        return None
    first = best = None
    for sizes, plan in _tries(module, options, guesses):
        subject = Subject(_fresh(module), plan, sizes, options.time_limit)
        subject.pristine, subject.dtype = module, dtype_of(module)
        reply = subject(subject.x())
        if reply is not None and (plan.stand_in is None or _looks(subject, reply)):
            if subject.module is not None and any(map(is_lazy, module.parameters())):
                subject.pristine = _fresh(subject.module)
            _tell_call(subject, guesses[0].length, results)
            return subject
        if subject.shapes and _examine_pooled(subject, results):
            return None
        first = first or subject
        if subject.last.error is None:  # it came back, with something else
            best = best or subject
        if subject.caller.out_of_time or (plan.single and _at_fault(first)):
            break
    _tell_trouble(best or first, results)
    return None


def _examine_pooled(subject: Subject, results: Results) -> bool:
    """Examine a layer that sums up a sequence in a few vectors; return whether this is one."""
    exact = subject.again(dtype=torch.float64) or subject
    exact.pools = not subject.plan.single
    reply = exact(exact.x()) if exact.pools else None
    if reply is None:
        return False
    found, count = attentions(exact, exact.x()), reply.output.shape[1]
    if any(one.seen["output"].shape[-2] != count for one in found):
        return False  # tokens are compared, and then some are lost
    if found:
        examine_heads(found, results)
    told = ": only its softmax and its scale were checked" if found else ""
    vectors = "one vector" if count == 1 else f"{count} vectors"
    results.unexamined(f"It gives {vectors} for each sequence, not one for each token{told}.")
    return True


def _tries(module: object, options: Options, guesses: list[Sizes]) -> Iterator[tuple[Sizes, Plan]]:
    """Yield sizes and ways to call it, the likeliest first."""
    ways = list(plans(module, options))
    yield from ((sizes, plan) for sizes in guesses for plan in ways)
    if ways[0].kind != "x":  # keys of another width than the queries
        widths = dict.fromkeys(sizes.embed for sizes in guesses)
        for embed in widths:
            for other in widths:
                yield replace(guesses[0], embed=embed, key=other, value=other), ways[0]


def _fresh(module: object) -> object:
    """Return a copy, for a module that keeps something of every call."""
    try:
        return copy_of(module) if isinstance(module, nn.Module) else module
    except Exception:
        return module


def _looks(subject: Subject, reply: Reply) -> bool:
    """Return whether a mask that it always wants lets it look at anything."""
    if not reply.output.isfinite().all():
        return False
    one = next(iter(attentions(subject, subject.x())), None)
    return one is None or one.some is None or not torch.equal(one.some, one.none)


def _tell_call(subject: Subject, length: int, results: Results) -> None:
    plan, sizes = subject.plan, subject.sizes
    if plan.single:
        words = f"It takes one sequence of shape (L, {sizes.embed}), no batch: nothing about "
        results.note("single", f"{words}batches was checked.")
    if plan.sequence_first:
        words = "It takes (L, N, E), the sequence first: batch_first is False."
        results.note("sequence-first", words)
    if sizes.length != length:
        results.note("sizes", f"It was examined with sequences of {sizes.length} tokens.")
    words = f"takes tokens with {sizes.embed} features and returns one vector per token"
    results.held("sizes", words)


def _tell_trouble(subject: Subject, results: Results) -> None:
    sizes, error = subject.sizes, subject.last.error
    size = (sizes.batch, sizes.length, sizes.embed)
    raises = f"On an input of shape {size} it raises {subject.trouble}"
    inside, message = _part_to_examine(subject.layer), subject.last.message
    if subject.caller.out_of_time:
        late = behaviour.late(subject.caller)
        results.found("hangs", f"On an input of shape {size} it gave no answer within {late}.")
    elif error is not None and ("'indices'" in message or "scalar types: Long" in message):
        why = "It takes token numbers, not vectors, so it is more than an attention layer."
        results.unexamined(why, remedy=inside)
    elif error is not None and _mixes(subject):
        results.found(
            "transposed-batch",
            f"{raises}; with N = L = E it runs and mixes the sequences: .T and transpose(0, 1) "
            "move the dimension of the batch.",
        )
    elif error is not None and _at_fault(subject):
        results.found("raises", f"{raises}.")
    elif error is not None:
        results.unexamined(
            f"The clinic could not call it: it raises {subject.trouble}",
            call=call_of(subject),
            remedy=f"{inside} Or pass call=..., a function that calls it: call(target, query, key, "
            "value, attn_mask); and embed_dim=... if its input has another width.",
        )
    elif subject.trouble == "None":
        results.found("not-done", "It returns None.")
    elif subject.shapes:
        results.found(
            "wrong-shape",
            f"For an input of shape {size} it returns {' and '.join(map(str, subject.shapes))}; "
            f"the output should be ({size[0]}, {size[1]}, features).",
        )
    else:
        results.found("wrong-type", f"It returns {subject.trouble}, not a tensor.")


def _mixes(subject: Subject) -> bool:
    """Return whether it mixes the sequences where N = L = E; leave what the last call said."""
    kept = subject.trouble, subject.last
    mixed = subject.sizes.embed <= 64 and behaviour.mixes_in_a_cube(subject, subject.sizes.embed)
    subject.trouble, subject.last = kept
    return bool(mixed)


def _at_fault(subject: Subject) -> bool:
    """Return whether it took tokens, and nothing else, as it should and raises an error then."""
    error = subject.last.error
    made_up = subject.plan.required or subject.plan.adapter is not None
    if error is None or made_up or OURS.search(f"{type(error).__name__}: {subject.last.message}"):
        return False
    subject.traced(subject.x())
    return isinstance(error, NameError) or any(step.factors for step in subject.trace.steps)


def _part_to_examine(module: object) -> str:
    """Return which part of a larger module looks like attention."""
    parts = list(module.named_modules())[1:] if isinstance(module, nn.Module) else ()
    for name, part in parts:
        weights = any(True for _ in part.parameters())
        if weights and INSIDE.search(f"{name} {type(part).__name__}"):
            path = re.sub(r"\.(\d+)", r"[\1]", name)
            return f"Diagnose the attention inside it, such as its .{path}."
    return "Diagnose the attention inside it."


def call_of(subject: Subject, **named: object) -> str:
    """Return the last kind of call as text, with the shapes of its tensors."""
    x = subject.x()
    given, extras = subject.arguments(subject.sides(x, x, x), named)
    told = [_shown(one) for one in given]
    told += [f"{name}={_shown(one)}" for name, one in extras.items()]
    return f"{name_of(subject.caller.function)}({', '.join(told)})"


def _shown(value: object) -> str:
    """Return how a call is printed with this argument."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{tuple(value.shape)}"
    return type(value).__name__ if isinstance(value, nn.Module) else repr(value)
