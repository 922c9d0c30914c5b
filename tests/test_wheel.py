"""The wheel: one top-level name, built-in parts of its own wherever it runs, and a job that passes through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.servers import Server

ROOT = Path(__file__).parent.parent
DECOY = 'raise RuntimeError("a decoy was imported")\n'
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built without network."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `python` of a venv with the wheel unpacked in it, and the tests' own dependencies beside it."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # the dependencies, but not the checkout: an editable install hangs on a .pth file, which is not followed here
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


@pytest.fixture
def decoys(tmp_path: Path) -> Path:
    """A working directory with folders of the built-in parts' names."""
    for part in ("plugins", "executors"):
        (tmp_path / part).mkdir()
        for name in ("__init__", "python", "http", "github"):
            (tmp_path / part / f"{name}.py").write_text(DECOY)
    (tmp_path / "lua").mkdir()
    (tmp_path / "lua" / "submit.lua").write_text("return redis.error_reply('a decoy ran')")
    (tmp_path / "shop.py").write_text("def double(payload):\n    return 2 * payload\n")
    (tmp_path / "gateway.toml").write_text('[targets.double]\nexecutor = "python"\ncallable = "shop:double"\n')
    return tmp_path


def run(program: Path, cwd: Path, *arguments: str, **environ: str) -> str:
    env = {"PATH": os.environ["PATH"], **environ}
    command = [str(program), "-P", "-m", "gateway", *arguments]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_occupies_one_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gateway"}
    for inside in (
        "gateway/lua/prelude.lua",
        "gateway/executors/http.py",
        "gateway/plugins/github.py",
        "gateway/py.typed",
    ):
        assert inside in names


def test_built_in_parts_are_the_wheels_own_beside_decoys(program: Path, decoys: Path) -> None:
    shown = json.loads(run(program, decoys, "plugins", "--json"))
    brought = {name for plugin in shown["plugins"] for name in (*plugin["executors"], *plugin["verifiers"])}
    assert {"python", "http", "command", "github", "standard", "hmac"} <= brought
    assert all(plugin["source"] == "built-in" for plugin in shown["plugins"])


def test_a_job_passes_through_the_wheel(program: Path, decoys: Path, namespace: str) -> None:
    script = """
import asyncio, random, time
from pathlib import Path
from prometheus_client import CollectorRegistry
import gateway
from gateway.dispatch.dispatcher import Dispatcher, Stop
from gateway.dispatch.metrics import DispatchMetrics
from gateway.egress.client import EgressClient
from gateway.jobs import Submission
from gateway.opening import make_store
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.settings import load
import os

async def main():
    settings = load(os.environ, Path.cwd())
    url = settings.redis_url.reveal()
    registry = Registry.build(settings)
    store = make_store(settings, url, flows=registry.flows)
    await store.configure()
    job_id = store.new_id(time.time_ns() // 1_000_000)
    await store.submit([Submission(job_id, "double", b"21")])
    stop = Stop()
    async with EgressClient() as http:
        dispatcher = Dispatcher(settings, store, registry=registry, runner=Runner(registry, http), redis_url=url,
            metrics=DispatchMetrics(CollectorRegistry()), wall_ms=lambda: 0, rng=random.Random(1))
        await registry.start()
        running = asyncio.create_task(dispatcher.run(stop))
        async with asyncio.timeout(20):
            while (found := await store.find(job_id)).record.status != "succeeded":
                await asyncio.sleep(0.02)
        stop.ask()
        await running
        await registry.aclose()
    await store.aclose()
    print(gateway.__file__, found.record.result.decode())

asyncio.run(main())
"""
    with Server() as server:
        env = {
            "PATH": os.environ["PATH"],
            "GATEWAY_REDIS_URL": server.url,
            "GATEWAY_GATEWAY_NAMESPACE": namespace,
        }
        done = subprocess.run(
            [str(program), "-P", "-c", script],
            cwd=decoys,
            env=env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    where, result = done.stdout.splitlines()[-1].split()
    assert Path(where).is_relative_to(program.parent.parent)
    assert result == "42"
