"""The tutorial: every command and file of it, in its order, as a newcomer would."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.documents import ROOT, blocks, commands, files_of, installed, write
from tests.waiting import until_sync

PAGE = ROOT / "docs" / "tutorial.md"
MENDED = "shop.py, mended"

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("bash", "curl", "openssl")), reason="the tutorial's shell has these"
)


def test_tutorial_goes_as_it_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    check, submit, fail, dead, replay, secret, deliver, extend = commands(PAGE)
    folder = tmp_path_factory.mktemp("tutorial")
    files = files_of(PAGE)
    mended = files.pop(MENDED)
    assert files["gateway.toml"].startswith('plugins = ["shelf"]')

    first = files | {"gateway.toml": section(files["gateway.toml"], "[targets.invoice]")}
    with installed(folder, first) as here:
        assert "1 target" in here.shell(check)
        record = json.loads(here.shell(submit))
        assert (record["status"], record["result"]) == ("succeeded", {"total": 14.5})
        record = json.loads(here.shell(fail))
        assert (record["status"], record["attempts"], record["error"]["type"]) == ("dead", 2, "KeyError")
        assert record["job_id"] in here.shell(dead)

    write(folder, {"shop.py": mended})
    with installed(folder, first | {"shop.py": mended}) as here:
        assert json.loads(here.shell(replay))["state"] == "running"
        lost = f"/jobs/{record['job_id']}"
        until_sync(lambda: here.api.get(lost).json()["status"] == "succeeded", timeout_s=60)
        here.shell(secret)

    with installed(folder, files | {"shop.py": mended}) as here:
        (job,) = json.loads(here.shell(deliver))["jobs"]
        assert here.ended(job["job_id"])["result"] == 'somebody pushed: {"who":"ada","what":"octo/shop"}'
        assert json.loads(here.shell(deliver))["duplicate"] is True
        printed = here.shell(extend)
        assert "shelf" in printed
        assert json.loads(printed[printed.index("{") :])["result"] == {"left": 6}


def section(text: str, heading: str) -> str:
    """One table of the file, which the first part of the tutorial has alone."""
    start = text.index(heading)
    return text[start : text.index("\n[", start + 1) + 1]


def test_tutorial_shows_no_command_that_is_not_run() -> None:
    """Shown as text is only what makes the environment that the test has, and what starts the gateway."""
    shown = [block.text.strip() for block in blocks(PAGE) if block.language == "text"]
    assert shown == [
        "mkdir shop && cd shop\npython3 -m venv .venv && . .venv/bin/activate\npip install -e ../event-gateway",
        "gateway up",
    ]
