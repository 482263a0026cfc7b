"""Which lines of code must be seen so that nothing in the code after them is undefined."""

from __future__ import annotations

import ast
import re
from symtable import SymbolTable, symtable


def needed_part(code: str, wanted: set[str], *, functions: bool) -> str:
    """Return the statements that define wanted names or what these need, and ``functions``."""
    kept, lines = [], code.splitlines()
    for statement in reversed(ast.parse(code).body):
        first, *_ = [*getattr(statement, "decorator_list", []), statement]
        source = "\n".join(lines[first.lineno - 1 : statement.end_lineno])
        if (functions and is_function(statement)) or written(source) & wanted:
            wanted = names_before(source, wanted)
            kept.append(f"\n{source}\n" if is_function(statement) else source)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(reversed(kept)).strip("\n"))


def needs(code: str, part: str, *, functions: bool) -> bool:
    """Return whether code reads a name that a part defines; of one with functions only if asked."""
    if not functions and any(map(is_function, ast.parse(part).body)):
        return False
    return not written(part).isdisjoint(names_before(code, set()))


def is_function(statement: ast.stmt) -> bool:
    """Return whether a statement defines a function or a class."""
    return isinstance(statement, ast.FunctionDef | ast.ClassDef)


def names_before(code: str, wanted: set[str]) -> set[str]:
    """Return the names that must be defined before some code, if these are wanted after it."""
    table = symtable(code, "code", "exec")
    defined = {name.get_name() for name in table.get_symbols() if name.is_assigned()}
    return (wanted - defined) | (read(table) - defined)


def written(code: str) -> set[str]:
    """Return the names that code defines, and those whose entries it replaces."""
    symbols = symtable(code, "code", "exec").get_symbols()
    entries = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Subscript)]
    return {name.get_name() for name in symbols if name.is_assigned()} | {
        ast.unparse(node.value) for node in entries if isinstance(node.ctx, ast.Store)
    }


def read(table: SymbolTable) -> set[str]:
    """Return the names of the lesson that code reads, also inside its functions."""
    top = table.get_type() == "module"
    names = {
        name.get_name()
        for name in table.get_symbols()
        if name.is_referenced() and (top or name.is_global())
    }
    return names.union(*map(read, table.get_children()))
