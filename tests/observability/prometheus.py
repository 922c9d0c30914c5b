"""Debian's Prometheus, unpacked into a cache and never installed: a server that scrapes, and promtool."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.servers import free_ports
from tests.waiting import until_sync

CACHE = Path(tempfile.gettempdir()) / "event-gateway-tests-prometheus"
FETCH_S = 120
SCRAPE_S = 0.5


@functools.cache
def binaries() -> Path:
    """The folder with `prometheus` and `promtool`; the test is skipped, with the reason, where they cannot be had."""
    if found := shutil.which("promtool"):
        return Path(found).parent
    folder = CACHE / "usr" / "bin"
    if not (folder / "promtool").exists():
        _fetch()
    return folder


def _fetch() -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip("no prometheus here, and no apt-get to fetch Debian's package with")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, text=True, timeout=FETCH_S
        )
        packages = list(Path(folder).glob("prometheus_*.deb"))
        if not packages:
            pytest.skip(f"Debian's prometheus package cannot be fetched: {done.stderr.strip()[-200:]}")
        beside = Path(f"{CACHE}.{os.getpid()}")
        subprocess.run(["dpkg-deb", "-x", str(packages[0]), str(beside)], check=True, timeout=FETCH_S)
        with contextlib.suppress(OSError):
            beside.rename(CACHE)  # another test process may have been first
        shutil.rmtree(beside, ignore_errors=True)


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(binaries() / "promtool"), *arguments], input=stdin, capture_output=True, text=True, timeout=60
    )


class Prometheus:
    """A server that scrapes; `query` asks it."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=10, trust_env=False)

    def ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self._client.get("/-/ready").status_code == 200
        return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        answer = self._client.get("/api/v1/query", params={"query": expression})
        assert answer.status_code == 200, f"{expression}: {answer.text}"
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    def value(self, expression: str) -> float:
        found = self.query(expression)
        assert len(found) == 1, f"{expression}: {found}"
        return float(found[0]["value"][1])

    def firing(self) -> set[str]:
        alerts = self._client.get("/api/v1/alerts").json()["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def rules(self) -> list[dict[str, Any]]:
        groups = self._client.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def close(self) -> None:
        self._client.close()


@contextlib.contextmanager
def scraping(folder: Path, ports: Sequence[int], rules: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes these ports of this machine twice a second, by these rules."""
    binary, (port, _) = binaries() / "prometheus", free_ports()
    (folder / "rules.yml").write_text(rules)
    every = f"{int(SCRAPE_S * 1000)}ms"
    targets = [f"127.0.0.1:{each}" for each in ports]
    job = {"job_name": "event-gateway", "static_configs": [{"targets": targets}]}
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": ["rules.yml"],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    arguments = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    arguments += [f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([str(binary), *arguments], stdout=log, stderr=log)
    prometheus = Prometheus(f"http://127.0.0.1:{port}")
    try:
        until_sync(prometheus.ready, timeout_s=60)
        until_sync(lambda: len(prometheus.query("up == 1")) == len(ports), timeout_s=60, every_s=0.1)
        yield prometheus
    finally:
        prometheus.close()
        process.kill()
        process.wait(10)
