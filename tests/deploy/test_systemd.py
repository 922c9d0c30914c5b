"""The systemd units: what systemd itself says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.programs import read_unit, unit_files

UNITS = unit_files()
MOST_EXPOSED = 20
"""Of 100, as `systemd-analyze security` counts."""

ANALYZE = shutil.which("systemd-analyze") or ""

KNOWN = {
    "Type", "DynamicUser", "User", "WorkingDirectory", "EnvironmentFile", "Environment", "ExecStart", "Restart",
    "RestartSec", "RestartPreventExitStatus", "KillSignal", "KillMode", "TimeoutStopSec", "LimitNOFILE",
    "CapabilityBoundingSet", "AmbientCapabilities", "NoNewPrivileges", "ProtectSystem", "ProtectHome", "PrivateTmp",
    "PrivateDevices", "PrivateUsers", "ProtectClock", "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs",
    "ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "RemoveIPC", "RestrictAddressFamilies",
    "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "SystemCallArchitectures",
    "SystemCallFilter", "SystemCallErrorNumber", "UMask",
}  # fmt: skip
"""Keys of systemd.exec, systemd.kill and systemd.service that we use: a misspelt one is none of them."""


def test_there_is_a_unit_for_each_role() -> None:
    assert [file.name for file in UNITS] == ["event-gateway-dispatcher@.service", "event-gateway.service"]


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_unit_has_no_misspelt_key(file: Path) -> None:
    assert set(read_unit(file)) == KNOWN


@pytest.mark.skipif(not ANALYZE, reason="this machine has no systemd-analyze")
@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_systemd_verifies_the_unit_and_finds_it_guarded(file: Path, tmp_path: Path) -> None:
    here = tmp_path / file.name
    here.write_text(file.read_text().replace("/opt/event-gateway/bin/gateway", sys.executable))
    done = subprocess.run([ANALYZE, "verify", str(here)], capture_output=True, text=True, timeout=60)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "event-gateway" in line]
    assert (done.returncode, ours) == (0, [])
    command = [ANALYZE, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(here)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, re.findall(r".*Overall exposure.*", done.stdout)
