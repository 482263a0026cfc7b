"""Examine a copy of a target, collect what the probes saw, and put the findings in order."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable

import torch
from torch import nn

from attnlab.clinic.call import converted, copy_of
from attnlab.clinic.causes import CAUSES
from attnlab.clinic.kinds import KINDS, kind_of, unusable
from attnlab.clinic.report import Report
from attnlab.clinic.results import Fact, Results, unexamined
from attnlab.clinic.signature import Options
from attnlab.sandbox import (
    IN_ALL,
    CutShort,
    Limit,
    name_of,
    time_for_all,
    torch_as_it_is,
    wake_torch,
)
from attnlab.sandbox import call as call_safely

HALVES = (torch.float16, torch.bfloat16)
MASK_OPTIONS = ("allowed", "blocked", "additive")


def diagnose(
    target: object,
    *,
    kind: str | None = None,
    mask: str | None = None,
    causal: bool | None = None,
    batch_first: bool | None = None,
    num_heads: int | None = None,
    embed_dim: int | None = None,
    call: Callable | None = None,
    self_attention: bool = False,
    time_limit: float = 1.0,
    meant: Iterable[str] = (),
) -> Report:
    """Probe an implementation of attention, or of a part of it, and name what is wrong.

    Nothing is compared with stored outputs: the target is called with small tensors, one thing is
    changed at a time, and what moves tells what it does. The report has one of three outcomes:

    - *wrong*, ``.ok`` is False: ``.findings`` name what is wrong, the cause first, each with
      numbers that show it and a fix;
    - *nothing wrong found*, ``.ok`` is True: every property that was checked holds, and
      ``.properties`` lists them;
    - *not examined*, or not to the end, ``.ok`` is None: ``.gap`` tells what stood in the way, the
      call that was made, and the option below that would help. What the clinic cannot know, such
      as what an argument means, it asks for and does not guess.

    The target is left as it was: a layer is examined as a copy, and not at all where it cannot be
    copied.

    Parameters
    ----------
    target : callable, torch.nn.Module or tuple of two callables
        An attention function of (query, key, value) with or without a mask argument, a layer, a
        head split or merge, or both as a pair.
    kind : {"attention", "module", "heads", "split", "merge", "mask", "softmax"}, optional
        What it is; told from its arguments and its name if not given.
    mask : {"allowed", "blocked", "additive"}, optional
        What its mask means: ``"allowed"`` for True = may attend, ``"blocked"`` for True = blocked,
        ``"additive"`` for numbers added to the scores. Otherwise names and texts decide, or it
        is asked.
    causal : bool, optional
        Whether no query is meant to see a later key; told from the name if not given.
    batch_first : bool, optional
        Whether a layer takes (N, L, E); its attribute of this name if not given, else yes.
    num_heads, embed_dim : int, optional
        Sizes of a layer, where its attributes do not tell.
    call : callable, optional
        Adapter for another call: ``call(target, query, key, value, attn_mask)`` returns the output
        or (output, weights); ``attn_mask`` is None or bool with True = may attend.
    self_attention : bool
        Whether a layer that takes several tensors means the same tokens by all of them.
    time_limit : float
        Seconds of computing for one call of the target; all calls together may take thirty times
        as long. Other programs do not count; what only waits, as ``input()`` does, is stopped after
        a minute or more. Kept on the main thread only, and between two steps of Python: a step in
        compiled code that does not come back, such as an endless loop in C, cannot be stopped.
    meant : iterable of str
        Names of findings that are meant so, such as ``{"scale-missing"}``: they become notes.

    Returns
    -------
    Report
        With ``.ok``, ``.findings``, ``.properties``, ``.gap`` and ``.notes``: facts that are good
        to know and no bugs. It shows itself as text and as a page.

    Raises
    ------
    ValueError
        If ``kind``, ``mask`` or a name in ``meant`` is unknown.

    See Also
    --------
    attnlab.scaled_dot_product_attention : what a right function computes.
    torch.testing.assert_close : compares numbers and cannot say why they differ.

    Examples
    --------
    >>> def attention(query, key, value):
    ...     return (query @ key.transpose(-2, -1)).softmax(dim=-1) @ value
    >>> diagnose(attention).findings[0].name
    'scale-missing'
    >>> diagnose(attention, meant={"scale-missing"}).ok
    True
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}.")
    if mask is not None and mask not in MASK_OPTIONS:
        raise ValueError(f"mask must be 'allowed', 'blocked', 'additive' or None, got {mask!r}.")
    meant = frozenset([meant] if isinstance(meant, str) else meant)
    if unknown := sorted(meant - CAUSES.keys()):
        raise ValueError(f"meant must hold names of findings, got {', '.join(unknown)}.")
    options = Options(
        mask,
        causal,
        batch_first,
        num_heads,
        embed_dim,
        call,
        self_attention,
        time_limit,
        _half(target),
    )
    results, words = Results(meant), "target"
    wake_torch()
    target = _unwrapped(target)
    if fact := unusable(target):
        results.add(fact)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            words, probe = KINDS[kind or kind_of(target)]
            _examine(probe, target, options, results)
    said = (results.arranged(), tuple(results.notes), results.standing())
    return Report(name_of(target), words, *said, results.gap, results.sizes, results.untried)


def _unwrapped(target: object) -> object:
    """Return what torch.compile was given: it compiles anew for every size."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable"):
        target = call_safely(getattr, target, name, target).value
    return target


def _examine(probe: Callable, target: object, options: Options, results: Results) -> None:
    """Examine a copy; what ends the examination early becomes a gap."""
    limit, threads = Limit(IN_ALL * options.time_limit), torch.get_num_threads()
    try:
        own = _set_aside(target) if isinstance(target, nn.Module) else target
        if own is None:
            results.add(
                unexamined(
                    "It cannot be copied, and a call might change it.",
                    remedy="Examine its attention function by itself.",
                )
            )
            return
        with torch_as_it_is(), time_for_all(limit), _uncompiled():
            torch.set_num_threads(1)  # for small tensors several only wait for each other
            for fact in probe(own, options, results):
                results.add(fact)
    except CutShort:
        results.add(_cut_short(limit, options))
    except Exception as error:
        sentence = "The clinic itself failed here, so not all was checked"
        results.add(unexamined(f"{sentence}: {type(error).__name__}."))
    finally:
        torch.set_num_threads(threads)


def _cut_short(limit: Limit, options: Options) -> Fact:
    """Return that the examination was stopped, and why."""
    computed, passed = limit.spent()
    spent = f"{limit.seconds:g} seconds of computing, before its end"
    remedy = f"Pass time_limit={2 * options.time_limit:g} to give it twice that time."
    if computed < limit.seconds:
        spent = f"{passed:.0f} seconds, of which it computed for {computed:.1f}"
        remedy = "Leave out what waits for something, such as input()."
    return unexamined(f"The examination was stopped after {spent}.", remedy=remedy)


def _uncompiled() -> contextlib.AbstractContextManager:
    """Let no compiled part inside compile anew for every size."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")


def _set_aside(module: nn.Module) -> nn.Module | None:
    """Return a copy in eval mode, on the CPU; None if it cannot be copied.

    Half precision becomes float32: with three digits small bugs and rounding look alike.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = copy_of(module)
    if own is None:
        return None
    own = own.eval().to("cpu")
    return converted(own, torch.float32) if _half(module) else own


def _half(target: object) -> torch.dtype | None:
    """Return the dtype of a layer of half precision."""
    parts = target.parameters() if isinstance(target, nn.Module) else ()
    return next((part.dtype for part in parts if part.dtype in HALVES), None)
