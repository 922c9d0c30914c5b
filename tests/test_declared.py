"""Targets that modules declare with `@gateway.target`: found, checked like those of the file, and run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from gateway import ConfigError
from gateway.registry import Registry
from gateway.settings import load
from tests.e2e.conftest import installation as installation
from tests.e2e.installation import Installation

TASKS = """
import gateway

@gateway.target("resize", lane="low", max_attempts=7, timeout="30s", limit={"rate": "5/s", "concurrency": 2})
def resize(image: str, width: int = 200) -> dict:
    return {"image": image, "width": width}

@gateway.target("small", ordered=True)
@gateway.target("smaller", retry={"policy": "fixed", "base": "1s"}, heartbeat="5s")
async def small(payload): return payload

again = resize
"""

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes modules, and has them forgotten afterwards."""
    before = set(sys.modules)

    def write(**modules: str) -> None:
        for name, text in modules.items():
            path = (tmp_path / name).with_suffix(".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def build(folder: Path, imports: str = "declared_tasks", *, toml: str = "") -> Registry:
    (folder / "gateway.toml").write_text(toml)
    return Registry.build(load({"GATEWAY_IMPORTS": imports}, folder))


def test_decorator_leaves_the_function_as_it_is_and_gives_its_table(write: Write, tmp_path: Path) -> None:
    write(declared_tasks=TASKS)
    targets = build(tmp_path).targets
    assert sorted(targets) == ["resize", "small", "smaller"]
    resize, small, smaller = targets["resize"], targets["small"], targets["smaller"]
    assert (resize.lane, resize.timeout_s, resize.retry.max_attempts) == ("low", 30.0, 7)
    assert resize.limit is not None
    assert (resize.limit.rate, resize.limit.concurrency) == ("5/s", 2)
    assert (resize.executor.name, resize.config.callable) == ("python", "declared_tasks:resize")
    assert (small.ordered, small.config.callable, smaller.retry.policy) == (True, "declared_tasks:small", "fixed")
    assert smaller.config.heartbeat == 5.0
    assert sys.modules["declared_tasks"].resize("a") == {"image": "a", "width": 200}


def test_file_and_environment_both_name_modules_and_submodules_count(write: Write, tmp_path: Path) -> None:
    images = 'import gateway\n@gateway.target("resize")\ndef resize(payload): ...\n'
    write(
        **{"declared_shop/__init__": "from declared_shop.images import resize", "declared_shop/images": images},
        declared_tasks=TASKS.replace('"resize"', '"other"'),
    )
    registry = build(tmp_path, toml='imports = ["declared_shop"]\n')
    assert sorted(registry.targets) == ["other", "resize", "small", "smaller"]
    assert registry.targets["resize"].config.callable in ("declared_shop:resize", "declared_shop.images:resize")


@pytest.mark.parametrize(
    ("text", "toml", "message"),
    [
        ("import absent", "", r"imports: declared_tasks: cannot be imported: ModuleNotFoundError: No module named"),
        ("1 / 0", "", r"imports: declared_tasks: cannot be imported: ZeroDivisionError"),
        ("import sys; sys.exit(3)", "", r"imports: declared_tasks: cannot be imported: SystemExit: 3"),
        ("def f(payload): ...", "", r"imports: declared_tasks: declares no target; mark its functions"),
        (
            "import gateway\n@gateway.target\ndef f(payload): ...",
            "",
            r"imports: declared_tasks: cannot be imported: TypeError: @gateway.target takes the name first",
        ),
        (
            TASKS.replace('"30s"', '"soon"'),
            "",
            r"@gateway.target of declared_tasks:resize: timeout: not a duration: 'soon'",
        ),
        (TASKS.replace('"5/s"', '"5"'), "", r"@gateway.target of declared_tasks:resize: limit.rate: not a rate"),
        (TASKS.replace('"low"', '"lo"'), "", r'declared_tasks:resize: lane: no lane named "lo"; did you mean "low"'),
        (TASKS.replace('"resize"', '"re size"'), "", r"declared_tasks:resize: 're size' is not a name"),
        (
            TASKS.replace('"small"', '"resize"'),
            "",
            r'the target "resize" is there already, by @gateway.target of declared_tasks:\w+; rename one',
        ),
        (
            TASKS,
            '[targets.resize]\nexecutor = "command"\nargv = ["true"]\n',
            r'the target "resize" is there already, by gateway.toml: targets.resize; rename one',
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(write: Write, tmp_path: Path, text: str, toml: str, message: str) -> None:
    write(declared_tasks=text)
    with pytest.raises(ConfigError, match=message):
        build(tmp_path, toml=toml)


@pytest.mark.parametrize("name", ["shop/tasks", "shop tasks", "shop:tasks"])
def test_name_that_is_no_module_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r'environment: GATEWAY_IMPORTS: .* write "package.module"'):
        load({"GATEWAY_IMPORTS": name}, tmp_path)
    (tmp_path / "gateway.toml").write_text(f'imports = ["{name}"]')
    with pytest.raises(ConfigError, match=r"gateway.toml: imports\[0\]: .* is not a module"):
        load({}, tmp_path)


def test_gateway_and_dispatcher_started_with_import_run_declared_targets(installation: Installation) -> None:
    (installation.folder / "declared_tasks.py").write_text(TASKS)
    installation.configure()
    installation.up("--import", "declared_tasks")
    job_id = installation.submit("resize", {"image": "cat.png"})
    assert installation.ended(job_id)["result"] == {"image": "cat.png", "width": 200}
    record = installation.ended(installation.submit("resize", {"image": 3}))
    assert (record["reason"], record["error"]["type"]) == ("fatal", "payload")
    assert record["error"]["message"] == (
        "the payload does not fit declared_tasks:resize: Expected `str`, got `int` - at `$.image`"
    )
    assert isinstance(installation.client, httpx.Client)
