"""Textbook bugs, put into correct code by rules that know no particular code.

``mutants(case)`` yields changed copies of an implementation. A rule reads the syntax tree: it finds
a softmax, a root, a ``masked_fill`` or a transposition wherever it stands, and changes that alone.
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import linecache
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256

import torch

from tests.clinic.panel.case import Case

# The names of each kind that are true of it and whose fix mends it.
ACCEPTED: dict[str, tuple[str, ...]] = {
    "scale-missing": ("scale-missing",),
    "scale-d": ("scale-d", "scale-other"),
    "scale-model": ("scale-model", "scale-other"),
    "softmax over queries": ("softmax-axis", "not-normalised"),
    "softmax over dim 1": ("softmax-axis", "not-normalised", "head-mixing", "batch-mixing"),
    "no softmax": ("not-normalised", "nan"),
    "key as value": ("wrong-source", "key-value-swapped", "cross-side"),
    "keys with keys": ("wrong-source", "cross-side"),
    "split by view": ("split-without-transpose", "split-and-merge"),
    "keys split by view": ("split-without-transpose",),
    "merge by view": ("merge-without-transpose", "split-and-merge"),
    "mask inverted": ("mask-inverted",),
    "mask not assigned": ("mask-ignored",),
    "mask filled finite": ("mask-finite", "mask-multiplied", "mask-leak"),
    "mask multiplied": ("mask-multiplied", "mask-finite"),
    "mask after softmax": ("mask-after-softmax", "mask-leak"),
    "causal inverted": ("causal-flipped", "causal-leak"),
    "causal not assigned": ("causal-missing", "causal-leak"),
    "causal filled finite": ("causal-leak", "mask-finite", "mask-multiplied"),
    "causal multiplied": ("causal-leak", "mask-finite", "mask-multiplied"),
    "causal after softmax": ("causal-leak", "mask-after-softmax"),
    "causal off by one": ("causal-off-by-one",),
    "dropout in eval": ("random",),
}

QUERY = re.compile(r"^x?_?(q|query|queries)(_?(states|layer|heads?))?_?\d*$", re.IGNORECASE)
KEY = re.compile(r"^x?_?(k|key|keys)(_?(states|layer|heads?))?_?\d*$", re.IGNORECASE)
VALUE = re.compile(r"^x?_?(v|value|values)(_?(states|layer|heads?))?_?\d*$", re.IGNORECASE)
HEADS = re.compile(r"^(n|num|no)?_?(attention_|local_)?(heads?|h)$", re.IGNORECASE)
MASK = re.compile(r"mask|keep|pad|len|block|allow|visible", re.IGNORECASE)
PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm", "scaled_dot_product_attention")
RANDOM_START = re.compile(r"Parameter|randn?\b|normal_|uniform_|init\.")


@dataclass(frozen=True)
class Mutant:
    """One bug in one implementation: its kind, the lines it changes, and the changed code."""

    case: Case
    kind: str
    change: str
    target: Callable


def mutants(case: Case, start: int = 0, step: int = 1) -> Iterator[Mutant]:
    """Yield the bugs that can be put in, each if it runs and no earlier one does the same.

    Of all changes only every so many are tried.
    """
    outputs = [case.output()]
    tree = tree_of(case)
    for kind, changed in itertools.islice(_changed_trees(tree, case.name), start, None, step):
        target = compiled(changed, case)
        output = _output(case, target)
        if output is None or any(_same(output, earlier) for earlier in outputs):
            continue
        outputs.append(output)
        yield Mutant(case, kind, _difference(tree, changed), target)


def tree_of(case: Case) -> ast.Module:
    """Return the code of an implementation, without its declaration."""
    written = _written_in(case.target.__module__)
    parts = [copy.deepcopy(written[part.__name__]) for part in (*case.beside, case.target)]
    for part in parts:
        part.decorator_list = []
    return ast.parse(ast.unparse(ast.Module(parts, [])))


@cache
def _written_in(module: str) -> dict[str, ast.stmt]:
    """Return the functions and classes of a module by their names."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    named = [one for one in tree.body if isinstance(one, ast.ClassDef | ast.FunctionDef)]
    return {one.name: one for one in named}


_numbers = itertools.count()


def compiled(tree: ast.Module, case: Case) -> Callable:
    """Return the implementation as changed code, in a module of its own that ``inspect`` reads."""
    original = sys.modules[case.target.__module__]
    name = f"{original.__name__}.changed_{next(_numbers)}"
    text = ast.unparse(tree) + "\n"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = types.ModuleType(name)
    module.__dict__.update({k: v for k, v in vars(original).items() if not k.startswith("__")})
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(text, file, "exec"), module.__dict__)
    return getattr(module, case.target.__name__)


def _output(case: Case, target: Callable) -> torch.Tensor | None:
    """Return what changed code gives; None if it does not run."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        try:
            return case.output(target)
        except Exception:  # a rule that does not fit this code
            return None


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(
        one.double(), other.double(), rtol=1e-5, atol=1e-6, equal_nan=True
    )


def _difference(before: ast.Module, after: ast.Module) -> str:
    """Return the changed lines as one."""
    old = ast.unparse(before).splitlines()
    return " | ".join(line.strip() for line in ast.unparse(after).splitlines() if line not in old)


# --- where a rule applies -------------------------------------------------------------------------

Change = Callable[[ast.AST], ast.AST | list[ast.AST] | None]


class _Replace(ast.NodeTransformer):
    """Replaces the nodes at these places of a tree, counted as ``ast.walk`` meets them."""

    def __init__(self, changes: dict[ast.AST, object]) -> None:
        self.changes = changes

    def visit(self, node: ast.AST) -> object:
        if node in self.changes:
            made = self.changes[node]
            return made(self.generic_visit(node)) if callable(made) else made
        return self.generic_visit(node)


def _with(tree: ast.Module, sites: dict[int, object]) -> ast.Module:
    """Return a copy in which the nodes of these numbers are replaced."""
    changed = copy.deepcopy(tree)
    nodes = list(ast.walk(changed))
    changes = {nodes[number]: made for number, made in sites.items()}
    return ast.fix_missing_locations(_Replace(changes).visit(changed))


def _changed_trees(tree: ast.Module, name: str) -> Iterator[tuple[str, ast.Module]]:
    found = _Found(tree, name)
    for rule in (scales, softmaxes, sources, heads, masks, diagonals, dropouts):
        for kind, sites in rule(found):
            if sites:
                yield kind, _with(tree, sites)


class _Found:
    """A tree with what the rules ask about its nodes."""

    def __init__(self, tree: ast.Module, name: str) -> None:
        self.nodes = list(ast.walk(tree))
        self.number = {node: number for number, node in enumerate(self.nodes)}
        self.parent = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.text = ast.unparse(tree)
        self.turn = int(sha256(name.encode()).hexdigest(), 16)  # for rules with a choice

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parent:
            node = self.parent[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        return next(one for one in (node, *self.above(node)) if isinstance(one, ast.stmt))

    def function(self, node: ast.AST) -> ast.FunctionDef | None:
        return next((one for one in self.above(node) if isinstance(one, ast.FunctionDef)), None)

    def calls(self, *names: str) -> Iterator[ast.Call]:
        for node in self.nodes:
            if isinstance(node, ast.Call) and called(node) in names:
                yield node

    def at(self, node: ast.AST) -> int:
        return self.number[node]


def called(node: ast.AST) -> str:
    """Return the last part of the name of what a call calls."""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))


def expression(text: str, **parts: ast.expr) -> ast.expr:
    """Return a parsed expression with nodes in the place of names."""
    made = ast.parse(text, mode="eval").body
    holes = {node: copy.deepcopy(parts[node.id]) for node in ast.walk(made)
             if isinstance(node, ast.Name) and node.id in parts}  # fmt: skip
    return _Replace(holes).visit(made)


def inside(node: ast.AST, kind: re.Pattern) -> list[ast.Name]:
    """Return the names below a node that are read and match."""
    return [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and kind.search(one.id)
    ]


# --- the rules ------------------------------------------------------------------------------------

Rule = Iterator[tuple[str, dict[int, object]]]


def scales(found: _Found) -> Rule:
    """Change every root by which scores are divided."""
    roots = [node for node in found.nodes if _power(node) and not _starts_weights(found, node)]
    for kind, change in (("scale-missing", _one), ("scale-d", _square)):
        yield kind, {found.at(node): change for node in roots}
    factors = {found.at(node): _number_of_heads(found, node) for node in roots}
    if all(factors.values()):
        yield (
            "scale-model",
            {
                place: lambda node, heads=heads: _of_width(node, heads)
                for place, heads in factors.items()
            },
        )
    for node in found.calls("scaled_dot_product_attention"):
        if "scale" not in [word.arg for word in node.keywords]:
            for kind, text in (("scale-missing", "1.0"), ("scale-d", "1 / q.shape[-1]")):
                factor = expression(text, q=node.args[0])
                yield (
                    kind,
                    {found.at(node): lambda call, factor=factor: _named(call, "scale", factor)},
                )


def _power(node: ast.AST) -> ast.expr | None:
    """Return the exponent of a root, or its call; None for anything else."""
    if isinstance(node, ast.Call) and called(node) == "sqrt" and node.args:
        return node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return node.right if _value(node.right) in (0.5, -0.5, 0.25, -0.25) else None
    return None


def _value(node: ast.expr) -> object:
    """Return the number that an expression without names gives, else None."""
    if any(isinstance(one, ast.Name | ast.Call | ast.Attribute) for one in ast.walk(node)):
        return None
    try:
        return eval(ast.unparse(node), {})
    except Exception:
        return None


def _starts_weights(found: _Found, node: ast.AST) -> bool:
    return bool(RANDOM_START.search(ast.unparse(found.statement(node))))


def _under(node: ast.expr) -> ast.expr:
    """Return what the root is taken of."""
    return node.args[0] if isinstance(node, ast.Call) else node.left


def _one(node: ast.expr) -> ast.expr:
    tensor = re.search(r"[tT]ensor\(", ast.unparse(node))
    return expression("d ** 0", d=_under(node)) if tensor else ast.Constant(1.0)


def _square(node: ast.expr) -> ast.expr:
    exponent = 1.0 if isinstance(node, ast.Call) else 2 * _value(node.right)
    return expression(f"d ** {exponent}", d=_under(node))


def _number_of_heads(found: _Found, node: ast.AST) -> ast.expr | None:
    """Return how the function around a root names the number of heads."""
    function = found.function(node)
    if function is None:
        return None
    arguments = [ast.Name(one.arg, ast.Load()) for one in function.args.args]
    named = [one for one in arguments if HEADS.search(one.id) and function.name == "__init__"]
    named += [
        one
        for one in ast.walk(function)
        if isinstance(one, ast.Attribute)
        and HEADS.search(one.attr)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
        and isinstance(one.ctx, ast.Load)
    ]
    return copy.deepcopy(named[0]) if named else None


def _of_width(node: ast.expr, heads: ast.expr) -> ast.expr:
    wide = expression("d * heads", d=_under(node), heads=heads)
    if isinstance(node, ast.Call):
        node.args[0] = wide
    else:
        node.left = wide
    return node


def _named(call: ast.Call, name: str, value: ast.expr) -> ast.Call:
    others = [word for word in call.keywords if word.arg != name]
    call.keywords = [*others, ast.keyword(name, value)]
    return call


def softmaxes(found: _Found) -> Rule:
    """Change the axis of a softmax, or leave it out."""
    for node in found.calls("softmax", "Softmax"):
        dim = _dim(node)
        if dim is None:
            continue
        first = 1 if dim in (-1, 3) else dim - 2 if dim == 2 else dim + 1
        yield "softmax over queries", {found.at(node): lambda call, to=dim - 1: _on(call, to)}
        yield "softmax over dim 1", {found.at(node): lambda call, to=first: _on(call, to)}
        yield "no softmax", {found.at(node): _without_softmax}
    if not list(found.calls("softmax", "Softmax")):
        sums = [node for node in found.calls("sum") if _dim(node) == -1]
        yield "softmax over queries", {found.at(node): lambda call: _on(call, -2) for node in sums}


def _dim(node: ast.Call) -> int | None:
    """Return the axis that a call names as a number."""
    named = [word.value for word in node.keywords if word.arg in ("dim", "axis")]
    placed = [one for one in node.args if isinstance(_value(one), int)]
    return next((_value(one) for one in named + placed if isinstance(_value(one), int)), None)


def _on(call: ast.Call, dim: int) -> ast.Call:
    call.args = [one for one in call.args if not isinstance(_value(one), int)]
    call.keywords = [word for word in call.keywords if word.arg != "axis"]
    return _named(call, "dim", ast.Constant(dim))


def _without_softmax(call: ast.Call) -> ast.expr:
    if called(call) == "Softmax":
        return expression("torch.nn.Identity()")
    of_tensor = call.args and _value(call.args[0]) is None
    return call.args[0] if of_tensor else call.func.value


def sources(found: _Found) -> Rule:
    """Average the keys, or compare keys with keys."""
    products = [*found.calls(*PRODUCTS)]
    products += [
        node
        for node in found.nodes
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    ]
    for product in products:
        queries, keys, values = (inside(product, kind) for kind in (QUERY, KEY, VALUE))
        if values and (keys or not queries):
            key = keys[0].id if keys else _key_like(found, values[0])
            if key:
                yield "key as value", {found.at(one): ast.Name(key, ast.Load()) for one in values}
        if queries and keys:
            yield (
                "keys with keys",
                {found.at(one): ast.Name(keys[0].id, ast.Load()) for one in queries},
            )


def _key_like(found: _Found, value: ast.Name) -> str | None:
    """Return the name of the keys in the function that reads these values."""
    function = found.function(value)
    names = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
    names += [
        one.id
        for one in ast.walk(function)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    ]
    alike = [name for name in reversed(names) if KEY.search(name)]
    alike.sort(key=lambda name: len(name) != len(value.id) and name[-1:] != value.id[-1:])
    return alike[0] if alike else None


def heads(found: _Found) -> Rule:
    """Cut or join heads by a bare view."""
    turns = [
        node
        for node in found.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _turns_heads(node)
    ]
    splits = [node for node in turns if _splits(found, node)]
    merges = [node for node in turns if node not in splits and _merges(found, node)]
    yield "split by view", {found.at(node): _bare_view for node in splits}
    of_keys = [
        node
        for node in splits
        if KEY.search(re.sub(r"\W.*", "", ast.unparse(found.statement(node))))
    ]
    if len(of_keys) < len(splits):
        yield "keys split by view", {found.at(node): _bare_view for node in of_keys}
    yield "merge by view", {found.at(node): _bare_view for node in merges}
    for node in found.calls("permute"):
        if [_value(one) for one in node.args] == [2, 0, 3, 1, 4]:
            yield "split by view", {found.at(node): _bare_view_of_three}


def _turns_heads(node: ast.Call) -> bool:
    axes = [_value(one) for one in node.args]
    return (called(node) == "transpose" and axes in ([1, 2], [2, 1], [-2, -3], [-3, -2])) or (
        called(node) == "permute" and axes == [0, 2, 1, 3]
    )


def _splits(found: _Found, node: ast.Call) -> bool:
    before = node.func.value
    if called(before) in ("view", "reshape", "unflatten") or _folds_heads(found, node):
        return True
    function, statement = found.function(node), found.statement(node)
    if function and re.search(r"split|for_scores|heads_of", function.name):
        return True
    if not isinstance(before, ast.Name) or "bmm(" in found.text:
        return False
    around = next((one for one in found.above(node) if isinstance(one, ast.GeneratorExp)), None)
    if around is not None:
        return bool(inside(around.generators[0].iter, QUERY))
    itself = isinstance(statement, ast.Assign) and statement.value is node
    return itself and ast.unparse(statement.targets[0]) == before.id and _is_part(before.id)


def _folds_heads(found: _Found, node: ast.Call) -> bool:
    """Return whether a view (N * H, L, d) follows."""
    after = [one for one in itertools.islice(found.above(node), 4) if called(one) == "view"]
    return bool(after and isinstance(after[0].args[0], ast.BinOp))


def _is_part(name: str) -> bool:
    return any(kind.search(name) for kind in (QUERY, KEY, VALUE))


def _merges(found: _Found, node: ast.Call) -> bool:
    function = found.function(node)
    if function and "merge" in function.name:
        return True
    after = [called(one) for one in itertools.islice(found.above(node), 6)]
    if any(name in ("view", "reshape", "flatten") for name in after):
        return True
    later = ast.unparse(found.statement(node))
    turned = re.match(r"(\w+) = ", later)
    joined = turned and rf"{turned[1]}\.(view|reshape|flatten|contiguous\(\)\.view)\("
    return bool(joined and re.search(joined, found.text))


def _bare_view(node: ast.Call) -> ast.expr:
    x = node.func.value
    return expression("x.reshape(x.shape[0], x.shape[2], x.shape[1], x.shape[3])", x=x)


def _bare_view_of_three(node: ast.Call) -> ast.expr:
    text = "x.reshape(x.shape[0], 3, x.shape[3], x.shape[1], x.shape[4]).transpose(0, 1)"
    return expression(text, x=node.func.value)


FILLS = (0.0, -1e-9, -5.0, 1e-9)


def masks(found: _Found) -> Rule:
    """Apply a mask the wrong way."""
    for node in found.calls("masked_fill", "masked_fill_", "where"):
        parts = _fill(node)
        sort = parts and _sort_of(found, node, parts[0])
        if not sort:
            continue
        condition, place = parts
        yield f"{sort} inverted", {found.at(condition): _inverse}
        statement = found.statement(node)
        yield f"{sort} not assigned", _not_assigned(found, node, statement)
        if found.turn % 3 == 0:  # it does what a fill with 0 does
            yield f"{sort} multiplied", {found.at(node): _multiplied}
        for step in range(2):
            fill = FILLS[(found.turn + step) % len(FILLS)]
            yield f"{sort} filled finite", {found.at(place): _like(place, fill)}
        yield f"{sort} after softmax", _after_softmax(found, node, statement)
    for node in found.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            if inside(node.right, re.compile("mask|attn_bias", re.IGNORECASE)):
                sort = _sort_of(found, node, node.right)
                yield f"{sort} not assigned", {found.at(node): lambda add: add.left}
    for node in found.calls("scaled_dot_product_attention"):
        for word in node.keywords:
            if word.arg == "is_causal":
                yield "causal not assigned", {found.at(word.value): ast.Constant(False)}


def _fill(node: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """Return the condition of a fill and the filled-in number."""
    if called(node) == "where":
        return (node.args[0], node.args[2]) if len(node.args) == 3 else None
    values = [*node.args, *(word.value for word in node.keywords)]
    of_module = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
    return tuple(values[-2:]) if len(values) >= 2 and not of_module else None


def _sort_of(found: _Found, node: ast.Call, condition: ast.expr) -> str | None:
    """Return whether it is an argument that is blocked, or what comes later."""
    function = found.function(node)
    arguments = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    known = {one.id for one in inside(condition, MASK)}
    if known & arguments:
        return "mask"
    for name in {one.id for one in ast.walk(condition) if isinstance(one, ast.Name)}:
        for made in re.findall(rf"^\s*{name} = (.*)$", ast.unparse(function), re.MULTILINE):
            if any(re.search(rf"\b{one}\b", made) for one in arguments if MASK.search(one)):
                return "mask"
    return "causal" if re.search(r"tril|triu", found.text) else None


def _inverse(condition: ast.expr) -> ast.expr:
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Invert):
        return condition.operand
    pairs = ((ast.Eq, ast.NotEq), (ast.GtE, ast.Lt), (ast.Gt, ast.LtE))
    if isinstance(condition, ast.Compare):
        for one, other in (*pairs, *(pair[::-1] for pair in pairs)):
            if isinstance(condition.ops[0], one):
                condition.ops = [other()]
                return condition
    return expression("~c", c=condition)


def _not_assigned(found: _Found, node: ast.Call, statement: ast.stmt) -> dict[int, object]:
    """Return the change that computes a filled tensor and drops it."""
    if called(node) == "masked_fill_":
        return {found.at(node.func): ast.Attribute(node.func.value, "masked_fill", ast.Load())}
    if isinstance(statement, ast.Assign) and statement.value is node:
        target = ast.unparse(statement.targets[0])
        if any(one.id == target for one in inside(node, re.compile(""))):
            return {found.at(statement): ast.Expr(copy.deepcopy(node))}
    return {}


def _like(place: ast.expr, number: float) -> ast.expr:
    tensor = isinstance(place, ast.Name)
    return expression(f"torch.full_like(x, {number})" if tensor else str(number), x=place)


def _multiplied(node: ast.Call) -> ast.expr:
    condition, _ = _fill(node)
    if called(node) == "where":
        return expression("x * c", x=node.args[1], c=condition)
    return expression("x * (c == 0)", x=node.func.value, c=condition)


def _after_softmax(found: _Found, node: ast.Call, statement: ast.stmt) -> dict[int, object]:
    """Return the changes that move a mask behind the softmax."""
    function = found.function(node)
    soft = [
        one
        for one in ast.walk(function)
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Name)
        and "softmax(" in ast.unparse(one.value).lower()
    ]
    if len(soft) != 1 or not isinstance(statement, ast.Assign) or statement.value is not node:
        return {}
    weights = soft[0].targets[0].id
    condition = _fill(node)[0]
    if called(node) == "where":
        condition = expression("~c", c=condition)
    text = f"{weights} = {weights}.masked_fill({ast.unparse(condition)}, 0.0)"
    around = found.parent[statement]
    if isinstance(around, ast.If):
        text = f"if {ast.unparse(around.test)}:\n    {text}"
    return {
        found.at(statement): ast.Pass(),
        found.at(soft[0]): lambda made: [made, *ast.parse(text).body],
    }


def diagonals(found: _Found) -> Rule:
    """Move the diagonal of a causal mask by one."""
    for node in found.calls("tril", "triu"):
        if re.search("window|radius|band", ast.unparse(node)):
            continue  # how far back is not a matter of causality
        for step in (1, -1):
            yield "causal off by one", {found.at(node): lambda call, by=step: _moved(call, by)}


def _moved(call: ast.Call, by: int) -> ast.Call:
    named = [word.value for word in call.keywords if word.arg == "diagonal"]
    of_torch = isinstance(call.func.value, ast.Name) and call.func.value.id == "torch"
    places = 1 if of_torch else 0
    old = [*named, *call.args[places:], ast.Constant(0)][0]
    call.args = call.args[:places]
    return _named(call, "diagonal", expression(f"old + {by}", old=old))


def dropouts(found: _Found) -> Rule:
    """Leave dropout on while evaluating."""
    for node in found.calls("dropout"):
        if "self.training" in ast.unparse(node):
            always = partial(_named, name="training", value=ast.Constant(True))
            yield "dropout in eval", {found.at(node): always}
            return
    for node in found.nodes:
        layer = isinstance(node, ast.Call) and ast.unparse(node.func)
        if layer and re.match(r"self\.\w*drop\w*$", layer) and len(node.args) == 1:
            yield (
                "dropout in eval",
                {
                    found.at(node): lambda call: expression(
                        "torch.nn.functional.dropout(x, 0.3)", x=call.args[0]
                    )
                },
            )
            return
