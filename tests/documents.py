"""The documentation as a reader would use it: its examples taken out, put into a folder, and run."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.servers import asked_to_end_with_us

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS_WEBHOOKS = ROOT / "docs" / "webhooks"
AT_TOP = ", at its top"
READY_S = 30.0

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def _certificate() -> str:
    """Of whoever signed the vectors of PayPal's scheme."""
    vectors = json.loads((ROOT / "tests" / "data" / "preset-vectors.json").read_text())
    return next(str(each["secret"]) for each in vectors if each["secret"].startswith("-----BEGIN CERTIFICATE"))


_OWN = {
    "SENDGRID_PUBLIC_KEY": "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe6"
    "2gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==",
    "DISCORD_PUBLIC_KEY": "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8",
    "BASIC_LOGIN": "user:password",
    "PAYPAL_CERTIFICATE": _certificate(),
}


@dataclass(frozen=True, slots=True)
class Block:
    """An example: its language, the file that it belongs to (empty: none), and its text."""

    language: str
    title: str
    text: str


Page = Path | tuple[Path, ...]
"""A page, or several that make one."""


def blocks(page: Page) -> list[Block]:
    """Every example of a page, in order."""
    if isinstance(page, tuple):
        return [block for each in page for block in blocks(each)]
    return [Block(*found.groups(default="")) for found in _BLOCK.finditer(page.read_text())]


def commands(page: Path) -> list[str]:
    """Every shell example of a page."""
    return [block.text for block in blocks(page) if block.language == "sh"]


def files_of(*pages: Page) -> dict[str, str]:
    """The files that the pages write, a later page's instead of an earlier one's; parts of one file are joined.

    What pages that make one all put at the top of a file stands there once.
    """
    found: dict[str, str] = {}
    for page in pages:
        parts: dict[str, list[str]] = {}
        for block in blocks(page):
            name = block.title.removesuffix(AT_TOP)
            at_top = block.title != name
            if name and not (at_top and block.text in parts.get(name, [])):
                parts.setdefault(name, []).insert(0 if at_top else len(parts[name]), block.text)
        found |= {name: "\n".join(texts) for name, texts in parts.items()}
    return found


def write(folder: Path, files: dict[str, str]) -> None:
    """Writes the files, and one for every `{ file = "NAME" }` that is not there yet."""
    for name, text in files.items():
        (folder / name).write_text(text)
    for name in re.findall(r'\{ file = "([\w.]+)" \}', files.get("gateway.toml", "")):
        if not (folder / name).exists():
            (folder / name).write_text("kept apart\n")


def secrets_in(text: str) -> dict[str, str]:
    """A value for every `{ env = "NAME" }`; one that any verifier takes, but for those that take only their own."""
    value = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    return {name: _OWN.get(name, value) for name in re.findall(r'\{ env = "(\w+)" \}', text)}


UP = [str(Path(sys.executable).with_name("gateway")), "up"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Installed:
    """`gateway up` in a folder with a page's files; `environ` is what a shell beside it has."""

    folder: Path
    environ: dict[str, str]
    api: httpx.Client

    def submit(self, target: str, payload: Any, **more: Any) -> dict[str, Any]:
        """The record of a job at its end."""
        answer = self.api.post("/jobs", json={"target": target, "payload": payload, **more})
        assert answer.status_code == 202, answer.text
        return self.ended(answer.json()["job_id"])

    def ended(self, job_id: str) -> dict[str, Any]:
        """The record of a job once it is over."""
        until_s = time.monotonic() + 20
        while True:
            record: dict[str, Any] = self.api.get(f"/jobs/{job_id}").json()
            if record["status"] in ("succeeded", "dead", "cancelled"):
                return record
            assert time.monotonic() < until_s, record
            time.sleep(0.02)

    def shell(self, text: str) -> str:
        """What a shell example prints, run here; its addresses are this gateway's."""
        text = text.replace("http://127.0.0.1:8080", str(self.api.base_url).rstrip("/"))
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text.replace("curl ", "curl -sS --noproxy '*' ")],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def log(self) -> str:
        return (self.folder / "up.log").read_text()


@contextlib.contextmanager
def installed(folder: Path, files: dict[str, str], **environ: str) -> Iterator[Installed]:
    """Writes the files and runs `gateway up` there until the block ends."""
    write(folder, files)
    port = free_port()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = {**os.environ, "PATH": path, **secrets_in(files["gateway.toml"]), **environ}
    ports = {"PORT": str(port), "GATEWAY_GATEWAY_DISPATCHER_PORT": "0"}
    with (
        (folder / "up.log").open("wb") as log,
        subprocess.Popen(asked_to_end_with_us(UP), cwd=folder, env=shell | ports, stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False) as api,
    ):
        here = Installed(folder, shell, api)
        try:
            _await_ready(here, process)
            yield here
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            finally:
                process.kill()


def _await_ready(here: Installed, process: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(httpx.TransportError):
            if here.api.get("/readyz").status_code == 200:
                return
        assert process.poll() is None, here.log()
        assert time.monotonic() < until_s, here.log()
        time.sleep(0.05)
