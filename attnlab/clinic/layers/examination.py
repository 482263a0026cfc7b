"""Examine an nn.Module, or a plain self-attention function of one tensor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import nn

from attnlab.clinic._copying import copy_of
from attnlab.clinic._results import Options, Results
from attnlab.clinic.layers.averages import examine_average
from attnlab.clinic.layers.behaviour import first_behaviour, last_behaviour
from attnlab.clinic.layers.calls import Reply, Sizes, Subject
from attnlab.clinic.layers.heads import blame_softmax, examine_heads
from attnlab.clinic.layers.masks import examine_masks
from attnlab.clinic.layers.modes import examine_modes, examine_training
from attnlab.clinic.layers.plans import plans
from attnlab.clinic.layers.probes import examine_batch, examine_positions
from attnlab.clinic.layers.sides import examine_sides
from attnlab.clinic.layers.sizes import guess_sizes, is_lazy

STOPS = ("random", "remembers", "batch-first", "batch-mixing", "hangs")


def examine_module(module: object, options: Options, results: Results) -> None:
    """Report what is wrong with a module; it is examined as a copy and stays as it was.

    Parameters
    ----------
    module : nn.Module or callable
        Takes x, (x, mask), (x, context) or (query, key, value).
    options : Options
        What ``diagnose`` was told.
    results : Results
        Receives findings, notes and properties.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(_one_thread())
        if isinstance(module, nn.Module):
            module = stack.enter_context(_copied(module))
        try:
            subject = find_call(module, options, results)
            if subject is not None:
                _examine(subject, options, results)
        except Exception as error:  # nothing that the layer returns may end the examination
            results.failed(error, "It could not be examined to the end")


@contextlib.contextmanager
def _copied(module: nn.Module) -> Iterator[nn.Module]:
    """Yield a copy in eval mode, or the module itself for as long as it takes."""
    try:
        own = copy_of(module).eval()
    except Exception:
        own = None
    if own is not None:
        yield own
        return
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield module.eval()
    finally:
        for part, training in modes:
            part.training = training


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread: for small tensors several only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _examine(subject: Subject, options: Options, results: Results) -> None:
    def safely(probe: Callable, *arguments: object) -> object:
        try:
            return probe(*arguments, results)
        except Exception as error:  # what it returned fits no probe
            results.failed(
                error, f"Not everything could be checked, the probe of {words(probe)} failed"
            )
            return None

    safely(first_behaviour, subject)
    if results.has(*STOPS):
        return
    exact = in_float64(subject) or subject
    safely(examine_batch, exact)
    if results.has("batch-mixing"):
        safely(blame_softmax, exact)
    if not results.has(*STOPS):
        pattern = safely(examine_positions, exact, options) or "other"
        safely(examine_training, exact, pattern)
        safely(examine_modes, exact)
        recipe = safely(examine_heads, exact, pattern)
        if not results.findings:
            safely(examine_average, exact)
        safely(examine_sides, exact)
        safely(examine_masks, exact, recipe, options)
    safely(last_behaviour, subject, exact)
    if exact.caller.out_of_time:
        limit = exact.caller.time_limit
        results.unexamined(
            f"One call took longer than {limit:g} s: not everything could be checked."
        )


def words(probe: Callable) -> str:
    """Return what a probe looks at."""
    return probe.__name__.removeprefix("examine_").replace("_", " ")


def in_float64(subject: Subject) -> Subject | None:
    """Return the subject in float64, or None if it cannot compute there."""
    module = subject.pristine
    if isinstance(module, nn.Module):
        try:
            module = copy_of(module).double()
        except Exception:
            return None
    exact = subject.like(module, torch.float64)
    exact.pristine = copy_of(module) if isinstance(module, nn.Module) else module
    reply = exact(exact.x())
    if reply is None or reply.output.dtype != torch.float64:
        return None
    return exact


def find_call(module: object, options: Options, results: Results) -> Subject | None:
    """Return the module with a call that works, or None with the reason on the results."""
    if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is None:
        results.unexamined("With kdim or vdim its inputs have several widths: it was not examined.")
        return None
    guesses = guess_sizes(module, options)
    if not guesses.embeds:
        results.unexamined("No size of its input was found: pass embed_dim=...")
        return None
    first = best = None
    for embed in guesses.embeds:
        for length in guesses.lengths:
            for plan in plans(module, options):
                batch = 2 if guesses.heads != 2 else 3
                sizes = Sizes(embed, length, batch, guesses.heads)
                subject = Subject(_fresh(module), plan, sizes, options.time_limit)
                subject.pristine = module
                reply = subject(subject.x())
                if reply is not None and (plan.stand_in is None or _finite(reply)):
                    if isinstance(module, nn.Module) and any(map(is_lazy, module.parameters())):
                        subject.pristine = _fresh(subject.module)
                    _tell_call(subject, guesses.lengths, results)
                    return subject
                first = first or subject
                if subject.last.error is None:  # it came back, with something else
                    best = best or subject
                if subject.caller.out_of_time:
                    return _tell_trouble(subject, results)
    return _tell_trouble(best or first, results)


def _fresh(module: object) -> object:
    """Return a copy, for a module that keeps something of every call."""
    with contextlib.suppress(Exception):
        return copy_of(module) if isinstance(module, nn.Module) else module
    return module


def _finite(reply: Reply) -> bool:
    return bool(reply.output.isfinite().all())


def _tell_call(subject: Subject, lengths: list[int], results: Results) -> None:
    plan, sizes = subject.plan, subject.sizes
    if plan.single:
        results.note(
            "single",
            f"It takes one sequence of shape (L, {sizes.embed}), no batch: nothing about batches "
            "was checked.",
        )
    if plan.sequence_first:
        results.note(
            "sequence-first", "It takes (L, N, E), the sequence first: batch_first is False."
        )
    if sizes.length != lengths[0]:
        results.note("sizes", f"It was examined with sequences of {sizes.length} tokens.")
    results.held(
        "sizes", f"takes tokens with {sizes.embed} features and returns one vector per token"
    )


def _tell_trouble(subject: Subject, results: Results) -> None:
    sizes = subject.sizes
    size = (sizes.batch, sizes.length, sizes.embed)
    if subject.caller.out_of_time:
        limit = subject.caller.time_limit
        results.found("hangs", f"On an input of shape {size} it gave no answer within {limit:g} s.")
    elif subject.last.error is not None and _wants_numbers(subject):
        results.unexamined(
            "It takes token numbers, not vectors: diagnose the attention layer inside it."
        )
    elif subject.last.error is not None and _wrong_in_a_cube(subject):
        results.found(
            "transposed-batch",
            f"On an input of shape {size} it raises {subject.trouble}; with N = L = E it runs and "
            "mixes the sequences: .T and transpose(0, 1) move the dimension of the batch.",
        )
    elif subject.last.error is not None:
        results.found("raises", f"On an input of shape {size} it raises {subject.trouble}")
    elif subject.trouble == "None":
        results.found("not-done", "It returns None.")
    elif subject.trouble == "the wrong shape":
        shapes = " and ".join(map(str, subject.shapes))
        results.found(
            "wrong-shape",
            f"For an input of shape {size} it returns {shapes}; the output should be "
            f"({size[0]}, {size[1]}, features).",
        )
    else:
        results.found("wrong-type", f"It returns {subject.trouble}, not a tensor.")


def _wrong_in_a_cube(subject: Subject) -> bool:
    """Call with N = L = E; return whether one sequence reaches another."""
    trouble, embed = subject.trouble, subject.sizes.embed
    x = subject.x(embed, embed)
    other = torch.cat([x[:1], subject.x(embed, embed, seed=1)[1:]])
    one, two = (subject(cube) for cube in (x, other)) if embed <= 64 else (None, None)
    subject.trouble = trouble
    if one is None or two is None:
        return False
    return not torch.allclose(one.output[0], two.output[0], atol=1e-5)


def _wants_numbers(subject: Subject) -> bool:
    text = subject.last.message
    return "argument #1 'indices'" in text or "scalar types: Long" in text
