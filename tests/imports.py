"""The imports of a source tree, read and not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `module` as it stands after resolving dots, `name` None for `import module`."""

    module: str
    name: str | None
    line: int
    level: int
    nested: bool


@dataclass(frozen=True, slots=True)
class Module:
    """One file: its dotted name, and what it imports; a package is its `__init__`."""

    name: str
    path: Path
    is_package: bool
    tree: ast.Module

    @property
    def imports(self) -> tuple[Import, ...]:
        return _all_imports(self)

    def place(self, line: int) -> str:
        return f"{self.name} line {line}"


def read_modules(root: Path, *packages: str) -> dict[str, Module]:
    """Every module of the packages below `root`, by name."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            found[name] = Module(name, path, is_package, ast.parse(path.read_text()))
    return found


def imported_modules(module: Module, known: dict[str, Module]) -> Iterator[tuple[str, int]]:
    """The known modules that a module imports, and where: `from a import b` means `a.b` where that is a module."""
    for each in module.imports:
        inner = f"{each.module}.{each.name}"
        if inner in known:
            yield inner, each.line
        elif each.module in known:
            yield each.module, each.line


def cycles(known: dict[str, Module]) -> list[list[str]]:
    """Chains of modules that import one another in a ring."""
    graph = {name: {other for other, _ in imported_modules(it, known) if other != name} for name, it in known.items()}
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(name: str, chain: list[str]) -> None:
        if name in chain:
            found.append([*chain[chain.index(name) :], name])
        elif name not in done:
            for other in sorted(graph[name]):
                visit(other, [*chain, name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])
    return found


@cache
def _all_imports(module: Module) -> tuple[Import, ...]:
    return tuple(_imports(module, module.tree, nested=False))


def _imports(module: Module, node: ast.AST, *, nested: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, None, child.lineno, 0, nested)
        elif isinstance(child, ast.ImportFrom):
            base = _resolved(module, child)
            for alias in child.names:
                yield Import(base, alias.name, child.lineno, child.level, nested)
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _imports(module, child, nested=nested or inside)


def _resolved(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    package = parts if module.is_package else parts[:-1]
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])
