"""The built-in executors that need no network keep the contract that third parties are held to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from executors.command import CommandConfig, CommandExecutor
from executors.python import PythonConfig, PythonExecutor
from gateway import Duration, Executor
from gateway.testing.executors import ExecutorContract

MODULE = """
import asyncio, time
from gateway import Fatal, Retry

def ok(payload): return {"got": payload}
async def ok_async(payload, context): return {"number": context.number}
async def slow(payload): await asyncio.sleep(60)
def retry(payload): raise Retry("later", after=3, details={"a": 1})
def fatal(payload): raise Fatal("never")
async def error(payload): raise KeyError("x")
"""


class TestPythonExecutor(ExecutorContract):
    cancel_within_s: ClassVar[float] = 1.0
    started_within_s: ClassVar[float] = 0.05

    @pytest.fixture(autouse=True)
    def module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "contract_functions.py").write_text(MODULE)
        monkeypatch.syspath_prepend(tmp_path)

    @pytest.fixture
    def executor(self) -> Executor[Any]:
        return PythonExecutor()

    @pytest.fixture(params=["ok", "ok_async"])
    def config_ok(self, request: pytest.FixtureRequest) -> PythonConfig:
        return PythonConfig(callable=f"contract_functions:{request.param}")

    @pytest.fixture
    def config_slow(self) -> PythonConfig:
        return PythonConfig(callable="contract_functions:slow")

    @pytest.fixture
    def config_retry(self) -> PythonConfig:
        return PythonConfig(callable="contract_functions:retry")

    @pytest.fixture
    def config_fatal(self) -> PythonConfig:
        return PythonConfig(callable="contract_functions:fatal")

    @pytest.fixture
    def config_error(self) -> PythonConfig:
        return PythonConfig(callable="contract_functions:error")


class TestCommandExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self) -> Executor[Any]:
        return CommandExecutor()

    @pytest.fixture
    def config_ok(self) -> CommandConfig:
        return CommandConfig(argv=("cat",))

    @pytest.fixture
    def config_slow(self) -> CommandConfig:
        return CommandConfig(argv=("sleep", "60"), grace=Duration(1.0))

    @pytest.fixture
    def config_retry(self) -> CommandConfig:
        return CommandConfig(argv=("sh", "-c", "exit 75"))

    @pytest.fixture
    def config_fatal(self) -> CommandConfig:
        return CommandConfig(argv=("sh", "-c", "exit 65"), fatal_codes=(65,))
