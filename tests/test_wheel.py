"""The wheel: one name, everything in it, and itself also where the user has folders of the same names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway
from gateway import ConfigError
from gateway.cli.plugin_project import new
from tests.e2e.installation import Installation

ROOT = Path(gateway.__file__).parent.parent
TIMEOUT_S = 120
TRAP = "raise SystemExit('the decoy was imported')\n"
WHERE = """
import json, sys
from pathlib import Path
from gateway.registry import Registry
from gateway.settings import load
from gateway.store.scripts import lua_directory, script
registry = Registry.build(load({}, Path.cwd()))
offers = [*registry.executors.values(), *registry.verifiers.values()]
kinds = [each if isinstance(each, type) else type(each) for each in offers]
files = {kind.__module__: sys.modules[kind.__module__].__file__ for kind in kinds}
print(json.dumps({"files": files, "lua": str(lua_directory()), "script": script("submit").name}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT))
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel; what it depends on is borrowed from this one, of which no `.pth` is read."""
    home = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", str(home))
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel))
    site = next(home.glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n{sysconfig.get_paths()['platlib']}\n")
    return home


@pytest.fixture
def decoys(tmp_path: Path) -> Path:
    """A user's folder in which every name of ours is taken."""
    for name in ("plugins", "executors", "lua", "gateway"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(TRAP)
    for name in ("plugins/github", "plugins/hmac", "plugins/standard", "executors/http", "executors/python"):
        (tmp_path / f"{name}.py").write_text(TRAP)
    (tmp_path / "lua" / "submit.lua").write_text("error('the decoy was run')")
    return tmp_path


@pytest.fixture
def installation(venv: Path, decoys: Path) -> Iterator[Installation]:
    installation = Installation(decoys, python=venv / "bin" / "python", env={"PYTHONPATH": ""})
    installation.configure()
    try:
        yield installation
    finally:
        installation.close()


def run(*command: str, folder: Path | None = None) -> str:
    """Its standard output; fails with all it said if it does not end well."""
    env = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "GATEWAY_"))}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def test_wheel_takes_one_name_and_holds_every_part(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"gateway", f"event_gateway-{gateway.__version__}.dist-info"}
    for part in ("executors", "plugins", "lua"):
        ours = {
            str(path.relative_to(ROOT))
            for path in (ROOT / part).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert ours
        assert {f"gateway/{name}" for name in ours} <= set(names)
    assert "gateway/py.typed" in names
    assert not [name for name in names if "test_" in name or name.endswith(".pyc")]


def test_command_loads_its_own_plugins_where_the_names_are_taken(venv: Path, decoys: Path) -> None:
    listed = json.loads(run(str(venv / "bin" / "gateway"), "plugins", "--json", folder=decoys))
    executors = {name for plugin in listed["plugins"] for name in plugin["executors"]}
    verifiers = {name for plugin in listed["plugins"] for name in plugin["verifiers"]}
    assert {"python", "http", "command"} <= executors
    assert {"github", "hmac", "standard"} <= verifiers
    assert {plugin["source"] for plugin in listed["plugins"]} == {"built-in"}


def test_every_part_comes_from_the_wheel_where_the_names_are_taken(venv: Path, decoys: Path) -> None:
    found = json.loads(run(str(venv / "bin" / "python"), "-P", "-c", WHERE, folder=decoys))
    home = next(venv.glob("lib/python*/site-packages")) / "gateway"
    assert len(found["files"]) >= 5
    assert [file for file in found["files"].values() if not Path(file).is_relative_to(home)] == []
    assert Path(found["lua"]) == home / "lua"


def test_job_runs_under_up_where_the_names_are_taken(installation: Installation) -> None:
    up = installation.up()
    record = installation.ended(installation.submit("work", {"name": "wheel"}))
    assert (record["status"], record["result"]) == ("succeeded", {"name": "wheel"})
    assert up.stop() == 0


def test_function_runs_in_a_process_of_its_own_where_the_names_are_taken(installation: Installation) -> None:
    installation.add_module("apart", "import os\ndef where(payload): return os.getpid()")
    installation.configure(more='[targets.apart]\nexecutor = "python"\ncallable = "apart:where"\nisolation = "process"')
    installation.up()
    record = installation.ended(installation.submit("apart"))
    assert record["status"] == "succeeded", record
    assert record["result"] in installation.processes()


@pytest.mark.long
def test_plugin_project_of_plugins_new_passes_its_tests_and_runs_jobs(venv: Path, tmp_path: Path) -> None:
    python, made = venv / "bin" / "python", tmp_path / "acme-printer"
    run(str(venv / "bin" / "gateway"), "plugins", "new", "acme-printer", folder=tmp_path)
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    run(sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(made))
    try:
        assert " passed" in run(str(python), "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=made)
        listed = json.loads(run(str(venv / "bin" / "gateway"), "plugins", "--json", folder=made))
        (plugin,) = [plugin for plugin in listed["plugins"] if plugin["source"] == "entry point"]
        assert (plugin["name"], plugin["version"], plugin["executors"]) == ("acme-printer", "0.1.0", ["acme-printer"])
        here = Installation(made, python=python, env={"PYTHONPATH": "", "GATEWAY_GATEWAY_DISPATCHER_PORT": "0"})
        try:
            here.up()
            record = here.ended(here.submit("hello", {"name": "world"}))
            assert (record["status"], record["result"]) == ("succeeded", {"text": "Hello, world!"})
        finally:
            here.close()
    finally:
        run(sys.executable, "-m", "pip", "--python", str(python), "uninstall", "-y", "-q", "acme-printer")


@pytest.mark.parametrize("name", ["Acme", "acme_printer", "acme--printer", "1acme", "../acme", "acme/x", ""])
def test_name_that_no_project_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a project"):
        new(name, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_plugin_project_is_not_written_over_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    with pytest.raises(ConfigError, match="is there already, and not empty"):
        new("acme", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
