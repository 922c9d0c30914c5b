"""The structure of the code: who may import whom, and what only one place may touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for part in ("gateway", "executors", "plugins") for path in (ROOT / part).rglob("*.py"))

LAYERS: tuple[tuple[str, ...], ...] = (
    ("gateway.cli", "gateway.__main__"),
    ("gateway.api", "gateway.dispatch"),
    ("gateway.runner", "gateway.callbacks", "gateway.opening", "gateway.figures", "gateway.logs"),
    (
        "gateway.store",
        "gateway.registry",
        "gateway.settings",
        "gateway.submission",
        "gateway.hooks",
        "gateway.triggers",
    ),
    (
        "gateway.apikeys",
        "gateway.backoff",
        "gateway.durations",
        "gateway.egress",
        "gateway.errors",
        "gateway.events",
        "gateway.executor",
        "gateway.expressions",
        "gateway.jobs",
        "gateway.keys",
        "gateway.limits",
        "gateway.nesting",
        "gateway.results",
        "gateway.schedules",
        "gateway.secret",
        "gateway.signing",
        "gateway.supervisor",
        "gateway.verifier",
    ),
)
"""Upper first; a module may import from its own layer and from those below it."""

BESIDE = ("gateway.client", "gateway.testing")
"""For users' programs and tests: nothing of the product imports them."""

ENVIRONMENT = {
    "gateway/cli/environment.py": "the command's entry: hands the environment to settings",
    "gateway/cli/run.py": "hands the supervisor's pid over, and takes it out",
    "gateway/cli/demo/installation.py": "what the demo's own processes inherit",
    "gateway/api/server.py": "the entry of a worker process, and what workers are told",
    "gateway/supervisor.py": "what child processes inherit",
    "executors/command/environment.py": "the allow-list of what a command gets to see",
    "executors/command/executor.py": "the same, where the executor is made",
}

BANNED = {"utils", "helpers", "common", "manager", "base", "misc", "util"}


@dataclass(frozen=True, slots=True)
class Import:
    """One import: the module that has it, what it names, the line, and whether it stands inside a function."""

    path: Path
    name: str
    line: int
    inside: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.name}"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text())
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        base = "." * node.level + (node.module or "") + "." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            yield Import(path, base + alias.name, node.lineno, id(node) in inner)


IMPORTS = [each for path in SOURCES for each in imports_of(path)]


def layer_of(module: str) -> int | None:
    for level, parts in enumerate(LAYERS):
        if any(module == part or module.startswith(part + ".") for part in parts):
            return level
    return None


def test_every_module_has_a_layer() -> None:
    modules = {module_of(path) for path in SOURCES if path.is_relative_to(ROOT / "gateway")} - {"gateway"}
    homeless = [m for m in modules if layer_of(m) is None and not m.startswith(BESIDE)]
    assert not homeless


def test_lower_layers_never_import_upper_ones() -> None:
    breaches = []
    for each in IMPORTS:
        mine, theirs = layer_of(module_of(each.path)), layer_of(each.name)
        if mine is not None and theirs is not None and theirs < mine:
            breaches.append(str(each))
    assert not breaches


def test_api_and_dispatch_do_not_import_each_other() -> None:
    pairs = {("gateway.api", "gateway.dispatch"), ("gateway.dispatch", "gateway.api")}
    breaches = [
        str(each)
        for each in IMPORTS
        for mine, theirs in pairs
        if module_of(each.path).startswith(mine) and each.name.startswith(theirs)
    ]
    assert not breaches


def test_nothing_of_the_product_imports_what_is_for_its_users() -> None:
    breaches = [
        str(each)
        for each in IMPORTS
        if each.name.startswith(BESIDE) and not module_of(each.path).startswith((*BESIDE, "gateway.cli.demo"))
    ]
    assert not breaches


@pytest.mark.parametrize("part", ["executors", "plugins"])
def test_built_in_plugins_import_only_what_a_third_party_may(part: str) -> None:
    breaches = []
    for each in IMPORTS:
        mine = module_of(each.path)
        if not mine.startswith(part + "."):
            continue
        relative = each.name.startswith(".")
        inside_gateway = each.name.split(".")[0] == "gateway" and len(each.name.split(".")) > 2
        sibling = each.name.split(".")[0] in ("executors", "plugins")
        one_file = mine.count(".") == 1 and each.path.name != "__init__.py"
        upward = each.name.startswith("..")
        if inside_gateway or sibling or upward or (relative and one_file):
            breaches.append(str(each))
    assert not breaches


def test_no_import_stands_inside_a_function() -> None:
    assert not [str(each) for each in IMPORTS if each.inside]


def test_no_import_of_ours_hides_under_type_checking() -> None:
    hidden = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and "gateway" in ast.unparse(node)
    ]
    assert not hidden


def test_only_the_store_talks_to_redis() -> None:
    breaches = [
        str(each)
        for each in IMPORTS
        if each.name.split(".")[0] in ("redis", "hiredis", "valkey")
        and not module_of(each.path).startswith("gateway.store")
    ]
    assert not breaches


def test_only_the_egress_client_sends_requests() -> None:
    senders = ("aiohttp", "requests", "urllib3", "urllib.request", "http.client", "httpx")
    allowed = ("gateway.egress", "gateway.client", "gateway.cli.demo")
    breaches = [
        str(each) for each in IMPORTS if each.name.startswith(senders) and not module_of(each.path).startswith(allowed)
    ]
    assert not breaches


def test_only_settings_and_the_entries_read_the_environment() -> None:
    readers = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv"):
                readers.add(str(path.relative_to(ROOT)))
    assert readers <= set(ENVIRONMENT), readers - set(ENVIRONMENT)


def test_modules_are_named_for_what_they_are() -> None:
    assert not [path for path in SOURCES if BANNED & {part.removesuffix(".py") for part in path.parts[-3:]}]
