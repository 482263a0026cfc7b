"""Find the projections of a module and what flows through them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.clinic.layers.calls import Subject

NOISE = {
    *"w proj projection projections to linear lin fc layer layers".split(),
    *"weight weights matrix trainable".split(),
    *"attn attention self att head heads in net mat bias b dense block core nn".split(),
}
WORDS = {
    "query": ("q", "query", "queries"),
    "key": ("k", "key", "keys"),
    "value": ("v", "value", "values", "val"),
    "stacked": ("qkv", "kqv"),
    "pair": ("kv",),
    "out": ("out", "o", "output", "unify", "unifyheads", "combine", "merge", "final"),
}
ROLES = {word: role for role, words in WORDS.items() for word in words}


@dataclass(frozen=True)
class Flow:
    """Query, key and value as projected, (N, L, F) each, and the joined heads they end in.

    ``finish`` maps joined heads to ``target``; ``interleaved`` holds heads of a stacked projection
    whose parts lie side by side in each head.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    target: Tensor
    matrices: tuple[Tensor | None, ...] = (None,)  # of the output projection, None for none
    stacked: Tensor | None = None
    raw: Tensor | None = None  # x itself

    @cached_property
    def size(self) -> Tensor:
        """The largest number of the target, to measure distances by."""
        return self.target.abs().max().clamp_min(1e-12)

    @cached_property
    def cut(self) -> dict[tuple, tuple[Tensor, ...] | None]:
        """What recipe.py has cut into heads, by how: many recipes cut alike."""
        return {}


def part_role(name: str) -> str | None:
    """Return the role of a parameter or layer by its name."""
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    words = [word for word in re.split(r"[._]|\d+", name) if word]
    if "c_attn" in name or "in_proj" in name:
        return "stacked"
    for word in reversed(words):
        if word in ROLES:
            return ROLES[word]
        if word[:1] == "w" and word[1:] in ROLES:
            return ROLES[word[1:]]
        if word[:2] == "to" and word[2:] in ROLES:
            return ROLES[word[2:]]
        if word not in NOISE and word not in ("trans", "c"):
            break
    return "out" if words and words[-1] == "proj" else None


class CallRecord:
    """One call of a module with everything that its linear layers received and gave."""

    def __init__(self, subject: Subject, x: Tensor, named: dict | None = None) -> None:
        self.x, self.subject = x, subject
        self.fired: dict[str, tuple[Tensor, Tensor]] = {}
        module, handles = subject.module, []
        layers = {}
        if isinstance(module, nn.Module):
            layers = {n: m for n, m in module.named_modules() if isinstance(m, nn.Linear)}
        for name, layer in layers.items():
            handles.append(layer.register_forward_hook(self._hook(name)))
        try:
            self.reply = subject(x, named=named)
        finally:
            for handle in handles:
                handle.remove()
        self.silent = {n: m for n, m in layers.items() if n not in self.fired}
        self.bare: dict[str, Tensor] = {}
        if isinstance(module, nn.Module):
            within = {f"{name}." for name in layers}
            self.bare = {
                name: parameter.detach()
                for name, parameter in module.named_parameters()
                if not any(name.startswith(prefix) for prefix in within)
            }

    def _hook(self, name: str):
        def hook(_layer: nn.Module, received: tuple, given: Tensor) -> None:
            if received and isinstance(given, Tensor) and name not in self.fired:
                self.fired[name] = (received[0].detach().clone(), given.detach().clone())

        return hook

    def flat(self, tensor: Tensor) -> Tensor | None:
        """Return (N, L, F) of what a layer saw, or None if it is nothing of this kind."""
        batch, length = self.x.shape[:2]
        if tensor.ndim == 4 and tuple(tensor.shape[:2]) == (batch, length):
            return tensor.flatten(2)
        if tensor.ndim == 4 and (tensor.shape[0], tensor.shape[2]) == (batch, length):
            return tensor.transpose(1, 2).flatten(2)
        if tensor.ndim == 2 and batch == 1 and len(tensor) == length:
            return tensor[None]
        if tensor.ndim == 2 and len(tensor) == batch * length:
            return tensor.reshape(batch, length, -1)
        if tensor.ndim != 3:
            return None
        if tuple(tensor.shape[:2]) == (length, batch) and self.subject.plan.sequence_first:
            return tensor.transpose(0, 1)
        return tensor if tuple(tensor.shape[:2]) == (batch, length) else None

    def projections(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the name and the projected tokens of everything that projects tokens."""
        for name, (_, given) in self.fired.items():
            flat = self.flat(given)
            if flat is not None:
                yield name, flat
        for name, layer in self.silent.items():
            if layer.in_features == self.x.shape[-1]:
                yield name, functional.linear(self.x, layer.weight, layer.bias).detach()
        for name, matrix in self.bare.items():
            yield from ((name, tokens) for tokens in self._by_matrix(name, matrix))

    def _by_matrix(self, name: str, matrix: Tensor) -> list[Tensor]:
        width = self.x.shape[-1]
        if matrix.ndim == 3 and matrix.shape[1] == width:  # (H, E, d)
            return [torch.einsum("nle,hed->nlhd", self.x, matrix).flatten(2)]
        if matrix.ndim != 2:
            return []
        bias = self._bias(name)
        found = []
        if matrix.shape[0] == width and not name.endswith("in_proj_weight"):
            found.append(self.x @ matrix)
        if matrix.shape[1] == width:
            found.append(self.x @ matrix.T)
        return [
            one + bias if bias is not None and bias.shape == one.shape[-1:] else one
            for one in found
        ]

    def _bias(self, name: str) -> Tensor | None:
        role = part_role(name)
        for other, parameter in self.bare.items():
            if parameter.ndim == 1 and role and part_role(other) == role:
                return parameter
        return None


def flows(record: CallRecord) -> Iterator[Flow]:
    """Yield the ways in which the module's parts may play together, the likeliest first."""
    if record.reply is None:
        return
    by_role: dict[str, dict[str, list[Tensor]]] = {}
    for name, tokens in record.projections():
        by_role.setdefault(part_role(name) or "?", {}).setdefault(name, []).append(tokens)
    targets = _targets(record, by_role)
    for sides, stacked in itertools.islice(_sides(by_role, record), 8):
        for target, matrices in targets:
            yield Flow(*sides, target, matrices, stacked, record.x)


def _sides(by_role: dict, record: CallRecord) -> Iterator[tuple[tuple, Tensor | None]]:
    if all(role in by_role for role in ("query", "key", "value")):
        choices = [_joined(by_role[role]) for role in ("query", "key", "value")]
        for sides in itertools.product(*choices):
            yield sides, None
    if "query" in by_role and "pair" in by_role:
        for query in _joined(by_role["query"]):
            for pair in _joined(by_role["pair"]):
                yield (query, *pair.chunk(2, dim=-1)), None
    for tokens in [t for many in by_role.get("stacked", {}).values() for t in many]:
        if tokens.shape[-1] % 3 == 0:
            yield tuple(tokens.chunk(3, dim=-1)), tokens
    unnamed = [t for many in by_role.get("?", {}).values() for t in many[:1]]
    if len(by_role) <= 2 and len(unnamed) >= 3:
        yield tuple(unnamed[:3]), None
    elif unnamed and unnamed[0].shape[-1] == 3 * record.x.shape[-1]:
        yield tuple(unnamed[0].chunk(3, dim=-1)), unnamed[0]
    if not by_role:
        yield (record.x, record.x, record.x), None


def _joined(named: dict[str, list[Tensor]]) -> list[Tensor]:
    """Return the tokens of one role; of one layer for each head, side by side."""
    ways = max(len(many) for many in named.values())
    return [
        torch.cat([many[way % len(many)] for many in named.values()], -1) for way in range(ways)
    ]


def _targets(record: CallRecord, by_role: dict) -> list[tuple[Tensor, tuple[Tensor | None, ...]]]:
    """Return where the joined heads can be seen: before the output projection, or at the end."""
    module = record.subject.module
    output = record.reply.output.detach()
    targets = []
    sides = [
        name
        for role in ("query", "key", "value", "stacked", "pair")
        for name in by_role.get(role, {})
    ]
    late = [n for n in record.fired if n not in sides]
    late.sort(key=lambda name: part_role(name) != "out")
    for name in late[:2] if sides else late[-1:]:
        seen = record.flat(record.fired[name][0])
        if seen is not None and not torch.equal(seen, record.x):
            targets.append((seen, (None,)))
            if part_role(name) == "out":
                return targets
    if not targets:
        for name, layer in record.silent.items():
            if part_role(name) == "out":
                bias = 0 if layer.bias is None else layer.bias.detach()
                targets.append((output - bias, (layer.weight.detach().T,)))
        for name, matrix in record.bare.items():
            if part_role(name) == "out" and matrix.ndim == 3:  # (H, d, E)
                matrix = matrix.flatten(0, 1)
            if part_role(name) == "out" and matrix.ndim == 2:
                bias = record._bias(name)
                target = output if bias is None else output - bias
                targets.append((target, (matrix, matrix.T)))
    targets.append((output, (None,)))
    if output.shape == record.x.shape and isinstance(module, nn.Module):
        targets.append((output - record.x, (None,)))
    return targets
