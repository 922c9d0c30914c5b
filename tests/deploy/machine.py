"""Runs what a deployment's files say, with their own commands and variables, on this machine.

Every service gets a loopback address of its own, so that ports stay as they are written; only the names of hosts
become addresses, and folders of containers folders of the test's.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from gateway.store.launch import server_binary
from tests.deploy.compose import KEY
from tests.deploy.programs import Program
from tests.documents import ROOT
from tests.e2e.installation import Process
from tests.waiting import until_sync

READY_S = 60.0
APP = ROOT / "deploy" / "app"
_SERVER = re.compile(r"\bvalkey-(server|sentinel)\b")


class Machine:
    """`folder` is the test's; use it as a context manager, so that what was started is gone at its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        draw = random.Random()
        self._net = f"127.{draw.randrange(1, 255)}.{draw.randrange(1, 255)}"
        self._hosts: dict[str, str] = {}
        self.servers: dict[str, str] = {}
        self._started: list[Process] = []
        self._bin = folder / "bin"
        self._bin.mkdir()
        for name in ("valkey-server", "valkey-sentinel"):
            (self._bin / name).symlink_to(server_binary())
        self.app = folder / "app"
        shutil.copytree(APP, self.app, ignore=shutil.ignore_patterns("__pycache__"))

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()

    def address(self, host: str) -> str:
        """The address that stands for a host."""
        return self._hosts.setdefault(host, f"{self._net}.{len(self._hosts) + 1}")

    def here(self, text: str, names: Mapping[str, str]) -> str:
        """The text with the names, as whole words, replaced."""
        for name, other in names.items():
            text = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w.-])", other, text)
            text = text.replace(f"//{name}:", f"//{other}:")
        return text

    def start_servers(
        self, services: Mapping[str, Mapping[str, Any]], configs: Mapping[str, Any]
    ) -> dict[str, Process]:
        """Starts the Valkey servers and sentinels among the services, by their names."""
        commands = {name: " ".join(each["command"]) for name, each in services.items()}
        self.servers = {name: self.address(name) for name, text in commands.items() if _SERVER.search(text)}
        for name in [*self.servers]:
            fixed = [net["ipv4_address"] for net in self._networks(services[name]) if "ipv4_address" in net]
            self.servers |= dict.fromkeys(fixed, self.servers[name])
        return {name: self._start_server(name, services[name], configs) for name in commands if name in self.servers}

    def _start_server(self, name: str, service: Mapping[str, Any], configs: Mapping[str, Any]) -> Process:
        data = self._folder / name
        data.mkdir()
        bound = self.servers[name]
        paths = {"/data": str(data)}
        for each in service.get("configs", []):
            file = self._folder / f"{name}.{each['source']}"
            text = configs[each["source"]]["content"].replace("/data", str(data))
            # on one machine all would announce themselves as 127.0.0.1
            here = f"bind {bound}\nsentinel announce-ip {bound}\n"
            file.write_text(f"{self.here(text, self.servers)}{here}")
            paths[each["target"]] = str(file)
        command = []
        for word in service["command"]:
            for path, other in paths.items():
                word = word.replace(path, other)
            command.append(self.here(word, self.servers))
        if command[0] == "valkey-server":
            command += ["--bind", bound]
        if "--cluster-enabled" in command:
            command += ["--cluster-announce-ip", bound]  # as above
        return self._run(command, data, name, {})

    def run(self, program: Program) -> Process:
        """The program, with its command and environment, in the folder of the example."""
        return self._run(self._command(program), self.app, program.role, self._environment(program))

    def await_ready(self, program: Program, process: Process) -> None:
        """Waits until its own health check is content."""

        def well() -> bool:
            assert not process.ended, process.log.read_text()[-3000:]
            done = subprocess.run(
                [sys.executable, *program.health[1:]],
                cwd=self.app,
                env=self._whole(self._environment(program)),
                capture_output=True,
                timeout=20,
            )
            return done.returncode == 0

        until_sync(well, timeout_s=READY_S, every_s=0.1)

    def api(self, program: Program, *, key: str = KEY) -> httpx.Client:
        """A client of the gateway that the program is."""
        url = f"http://{self.address(program.role)}:8080"
        return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30, trust_env=False)

    def _command(self, program: Program) -> list[str]:
        return [word.replace("0.0.0.0", self.address(program.role)) for word in program.command]

    def _environment(self, program: Program) -> dict[str, str]:
        own = self.address(program.role)
        given = {name: text.replace("0.0.0.0", own) for name, text in program.environment.items()}
        given = {name: self.here(text, self.servers) for name, text in given.items()}
        # alone in its container 127.0.0.1 is its own; here it is everybody's
        return {"GATEWAY_GATEWAY_HOST": own, "GATEWAY_GATEWAY_DISPATCHER_HOST": own} | given

    def _run(self, command: Sequence[str], folder: Path, name: str, env: Mapping[str, str]) -> Process:
        process = Process(command, folder, self._folder / f"{name}.log", self._whole(env))
        self._started.append(process)
        return process

    def _whole(self, env: Mapping[str, str]) -> dict[str, str]:
        path = f"{self._bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self._folder), **env}

    @staticmethod
    def _networks(service: Mapping[str, Any]) -> list[dict[str, Any]]:
        networks = service.get("networks", {})
        return [each or {} for each in networks.values()] if isinstance(networks, dict) else []
