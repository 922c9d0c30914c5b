"""The tree of commands: all of it tested and documented, light to start, completed by the shell."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from gateway.cli import EXIT_CODES, app
from gateway.cli.subcommands import SUBCOMMANDS, load
from tests.cli.shell import Shell, environment

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "cli.md"
ELSEWHERE = {
    "up": "tests/e2e/test_up.py",
    "serve": "tests/e2e/test_drain.py",
    "dispatch": "tests/e2e/test_drain.py",
    "demo": "tests/test_demo.py",
    "health": "tests/test_health.py",
    "triggers test": "tests/e2e/test_trigger_commands.py",
    "hook-url": "tests/e2e/test_trigger_commands.py",
    "bench hooks": "docs/performance.md says how",
    "bench intake": "docs/performance.md says how",
    "bench command": "docs/performance.md says how",
    "bench observability": "docs/performance.md says how",
    "bench bystanders": "docs/performance.md says how",
    "bench callout": "docs/performance.md says how",
    "bench throughput": "docs/performance.md says how",
    "bench all": "docs/performance.md says how",
    "bench flood": "docs/performance.md says how",
    "bench enqueue": "docs/performance.md says how",
    "bench latency": "docs/performance.md says how",
    "bench priority": "docs/performance.md says how",
    "bench retry": "docs/performance.md says how",
    "bench crash": "docs/performance.md says how",
    "bench claim-race": "docs/performance.md says how",
    "bench scaling": "docs/performance.md says how",
    "bench cost": "docs/performance.md says how",
    "bench persistence": "docs/performance.md says how",
    "bench footprint": "docs/performance.md says how",
    "bench delayed": "docs/performance.md says how",
    "bench depth": "docs/performance.md says how",
    "bench flows": "docs/performance.md says how",
    "bench memory": "docs/performance.md says how",
}
"""Commands that print no JSON, or whose tests lie beside what they start."""


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its whole name."""
    inner = getattr(command, "commands", None)
    if not inner:
        yield " ".join(path), command
        return
    for name, each in inner.items():
        if not each.hidden:
            yield from leaves(each, (*path, name))


COMMANDS = {name: command for top in SUBCOMMANDS for name, command in leaves(load(top), (top,))}


def run_by_tests() -> set[str]:
    """The commands that a test of this folder runs with `--json`."""
    found = set()
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                words = [each.value for each in _flat(node.args) if isinstance(each, ast.Constant)]
                json = isinstance(node.func, ast.Attribute) and node.func.attr == "json"
                if json or "--json" in words:
                    found |= {" ".join(map(str, words[:count])) for count in (1, 2)}
    return found


def _flat(args: list[ast.expr]) -> Iterator[ast.expr]:
    for each in args:
        inner = each.value if isinstance(each, ast.Starred) else each
        yield from inner.elts if isinstance(inner, (ast.Tuple, ast.List)) else [inner]


def test_every_command_is_run_by_a_test_that_parses_its_json() -> None:
    assert {name for name in COMMANDS if name not in run_by_tests()} == set(ELSEWHERE)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_takes_json_and_says_what_it_does(name: str) -> None:
    command = COMMANDS[name]
    options = {option for parameter in command.params for option in parameter.opts}
    if name not in ("up", "serve", "dispatch", "demo", "triggers test", "hook-url"):
        assert "--json" in options
    assert command.help


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_table_of_subcommands_says_what_they_are(name: str) -> None:
    command = load(name)
    assert command.name == name
    said, known = SUBCOMMANDS[name].help.rstrip("."), (command.help or "").replace("\n", " ")
    begins = said.partition(":")[0]
    assert known.startswith(begins), f"{begins!r} is not how {known!r} begins"


@pytest.mark.parametrize("name", COMMANDS)
def test_page_has_every_command_with_every_option(name: str) -> None:
    section = re.search(rf"^\| [^|]*`gateway {re.escape(name)}[ `].*$", PAGE.read_text(), re.MULTILINE)
    assert section, f"docs/cli.md has no row for gateway {name}"
    common = {"--url", "--api-key", "--json", "--help"}
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            if option.startswith("--") and option not in common:
                assert f"`{option}" in section[0], f"{name}: {option} is not in the page"


@pytest.mark.parametrize("top", SUBCOMMANDS)
def test_completion_is_an_option_of_the_top_alone(top: str) -> None:
    def options(command: Any) -> set[str]:
        return {option for parameter in command.params for option in parameter.opts}

    assert "--install-completion" in options(typer.main.get_command(app))
    assert "--install-completion" not in options(load(top))


@pytest.mark.parametrize("top", SUBCOMMANDS)
def test_list_may_be_written_ls(top: str) -> None:
    inner = getattr(load(top), "commands", {})
    assert ("list" in inner) is ("ls" in inner)


def test_page_has_every_exit_code() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)}
    assert codes == {0, 1, 2, 3, 130, *EXIT_CODES.values()}


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--version"], ("structlog", "pluggy", "msgspec", "asyncio", "gateway.settings", "gateway.schemes", "httpx")),
        (
            ["jobs", "get", "x", "--url", "http://127.0.0.1:1"],
            ("redis", "aiohttp", "starlette", "gateway.api", "gateway.settings", "pydantic"),
        ),
        (["serve", "--port", "1"], ("aiohttp", "pydantic")),
    ],
)
def test_start_imports_only_what_the_command_needs(
    arguments: list[str], heavy: tuple[str, ...], tmp_path: Path
) -> None:
    script = "import sys; from gateway.cli import app; app(standalone_mode=False)"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script, *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "gateway.cli.subcommands" in imported, done.stderr
    assert imported & set(heavy) == set()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gateway ", {"jobs", "dlq", "doctor", "up", "stats"}),
        ("gateway jobs ", {"submit", "get", "list", "cancel", "retry", "tail", "wait"}),
        ("gateway dlq ", {"ls", "show", "retry", "purge"}),
        ("gateway jobs submit --ca", {"--callback-url"}),
        ("gateway jobs list --status de", {"dead"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completes(line: str, expected: set[str], shell: str, tmp_path: Path) -> None:
    environ = {"bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    done = Shell(tmp_path, _GATEWAY_COMPLETE=f"complete_{shell}", **environ).run()
    words = set(re.findall(r"[\w-]+", done.stdout))
    assert expected <= words, done


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_for_a_shell(shell: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("gateway"))],
        env=environment(_GATEWAY_COMPLETE=f"source_{shell}"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "_GATEWAY_COMPLETE" in done.stdout
