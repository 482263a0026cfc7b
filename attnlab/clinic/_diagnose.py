"""Decide what the target is, examine a copy of it, and put the findings in order."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable

import torch
from torch import nn

from attnlab.clinic._causes import CAUSES
from attnlab.clinic._report import Report
from attnlab.clinic._results import Options, Results
from attnlab.clinic.examine import examine
from attnlab.clinic.names import arguments
from attnlab.clinic.pieces import examine_merge, examine_pair, examine_split
from attnlab.clinic.subject import Subject, converted, copy_of
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


def _whole(target: object, options: Options, results: Results) -> None:
    examine(Subject(target, options), results)


def _too_small(target: object, options: Options, results: Results) -> None:
    results.unexamined(
        "A softmax by itself and a function that builds a mask are not examined.",
        remedy="Print what it gives, or use the checks of lesson 1 and lesson 3.",
    )


KINDS: dict[str, tuple[str, Callable]] = {
    "attention": ("attention function", _whole),
    "module": ("attention layer", _whole),
    "heads": ("pair (split, merge)", examine_pair),
    "split": ("head split", examine_split),
    "merge": ("head merge", examine_merge),
    "mask": ("mask builder", _too_small),
    "softmax": ("softmax", _too_small),
}
MASK_OPTIONS = ("allowed", "blocked", "additive")
NAMED = (("softmax", "softmax"), ("merge", "merge|combine|join|unsplit|concat"), ("split", "split"))
SIZE_NAMES = re.compile(r"^(n|l|s|t|size|length|lengths|lens|seq_len|max_len|window|ids|tokens)$")
HEAD_COUNTS = re.compile(r"^(num_heads|n_heads?|nhead|heads?|h)$", re.IGNORECASE)


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
        Seconds of computing for one call of the target; all calls together may take ten times as
        long. Other programs do not count; what only waits, as ``input()`` does, is stopped after a
        minute or more. Kept on the main thread only, and between two steps of Python: a step in
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
        mask, causal, batch_first, num_heads, embed_dim, call, self_attention, time_limit, meant
    )
    results = Results(meant=meant)
    wake_torch()
    words = "target"
    target = _unwrapped(target)
    if _usable(target, results):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            words, probe = KINDS[kind or kind_of(target)]
            _examine(probe, target, options, results)
    found, said = results.arranged(), (tuple(results.notes), tuple(results.properties))
    looked = results.gap, results.sizes, results.untried
    return Report(name_of(target), words, found, *said, *looked)


def _unwrapped(target: object) -> object:
    """Return what torch.compile was given: it compiles anew for every size."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable"):
        target = call_safely(getattr, target, name, target).value
    return target


def _examine(probe: Callable, target: object, options: Options, results: Results) -> None:
    """Examine a copy; what ends the examination early becomes a gap."""
    limit, threads = Limit(IN_ALL * options.time_limit), torch.get_num_threads()
    try:
        own = set_aside(target) if isinstance(target, nn.Module) else target
        if own is None:
            results.unexamined(
                "It cannot be copied, and a call might change it.",
                remedy="Examine its attention function by itself.",
            )
            return
        with torch_as_it_is(), time_for_all(limit), _uncompiled():
            torch.set_num_threads(1)  # for small tensors several only wait for each other
            probe(own, options, results)
    except CutShort:
        computed, passed = limit.spent()
        spent = f"{limit.seconds:g} seconds of computing, before its end"
        remedy = f"Pass time_limit={2 * options.time_limit:g} to give it twice that time."
        if computed < limit.seconds:
            spent = f"{passed:.0f} seconds, of which it computed for {computed:.1f}"
            remedy = "Leave out what waits for something, such as input()."
        results.unexamined(f"The examination was stopped after {spent}.", remedy=remedy)
    except Exception as error:
        results.failed(error, "The clinic itself failed here, so not all was checked")
    finally:
        torch.set_num_threads(threads)


def _uncompiled() -> contextlib.AbstractContextManager:
    """Let no compiled part inside compile anew for every size."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")


def set_aside(module: nn.Module) -> nn.Module | None:
    """Return a copy in eval mode, on the CPU; None if it cannot be copied.

    Half precision becomes float32: with three digits small bugs and rounding look alike.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = copy_of(module)
    if own is None:
        return None
    halves = {part.dtype for part in module.parameters()} & set(HALVES)
    own = own.eval().to("cpu")
    return converted(own, torch.float32) if halves else own


def _usable(target: object, results: Results) -> bool:
    pair = isinstance(target, tuple | list)
    if inspect.isclass(target) and issubclass(target, nn.Module):
        sentence = f"{target.__name__} is a class: make a layer first, {target.__name__}(...)."
    elif pair and (len(target) != 2 or not all(map(callable, target))):
        sentence = "A pair must be two functions: (split, merge)."
    elif not pair and not callable(target):
        sentence = f"{type(target).__name__} cannot be called."
    else:
        return True
    results.unexamined(sentence, remedy="Pass a function, a module or a pair (split, merge).")
    return False


def kind_of(target: object) -> str:
    """Return which of KINDS a target is, told by its type, its arguments and its name."""
    if isinstance(target, tuple | list):
        return "heads"
    known = arguments(target) or []
    required = sum(one.required for one in known)
    if isinstance(target, nn.Module):  # without parameters it may be an attention function
        weights = any(True for _ in target.parameters())
        return "module" if weights or required < 3 else "attention"
    name, names = name_of(target).lower(), [one.name.lower() for one in known]
    if sorted(part.removeprefix("x_")[:1] for part in names[:3]) == ["k", "q", "v"]:
        return "attention"
    for kind, words in NAMED:
        if re.search(words, name):
            return kind
    if "mask" in name or ("causal" in name and len(names) < 3):
        return "mask"
    if len(names) >= 2 and HEAD_COUNTS.match(names[1]) and required <= 3:
        return "split"
    if names and SIZE_NAMES.match(names[0]) and required <= 2:
        return "mask"
    if names and names[0] in ("scores", "logits"):
        return "softmax"
    return "module" if required == 1 and len(names) <= 2 else "attention"
