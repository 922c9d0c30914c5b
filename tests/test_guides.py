"""The how-to pages and the guides from other systems: what they configure loads, what they type does what they say."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.registry import Registry
from gateway.settings import load
from tests.documents import ROOT, Installed, commands, files_of, installed, secrets_in
from tests.waiting import until_sync

DOCS = ROOT / "docs"
GUIDES = sorted([*DOCS.glob("from-*.md"), DOCS / "limits.md", DOCS / "cluster.md"])
SHOP = """
from pathlib import Path


def invoice(payload):
    if Path("down").exists():
        raise ConnectionError("billing is down")
    return {"sent": True}


def mail(payload):
    return payload


def export(payload):
    return payload["month"]


def book(payload, context):
    if payload == "fails at first" and context.number == 1:
        raise ConnectionError("not yet")
    return payload
"""
INVOICE = '[targets.invoice]\nexecutor = "python"\ncallable = "shop:invoice"\n'

needs_tools = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("bash", "curl")), reason="the pages' shell has these"
)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_configuration_of_a_guide_loads(page: Path, tmp_path: Path) -> None:
    text = files_of(page)["gateway.toml"]
    (tmp_path / "gateway.toml").write_text(text)
    settings = load(secrets_in(text), tmp_path)
    assert set(settings.targets) <= set(Registry.build(settings).targets)


@needs_tools
@pytest.mark.long
def test_guides_go_as_they_say(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = {"shop.py": SHOP, "gateway.toml": files_of(DOCS / "limits.md")["gateway.toml"] + INVOICE}
    files["gateway.toml"] += files_of(DOCS / "from-qstash.md")["gateway.toml"]
    with installed(tmp_path_factory.mktemp("guides"), files) as here:
        jobs_of_other_systems_are_taken(here)
        endpoints_of_svix_are_taken(here)
        limits_hold(here)
        outage_is_over(here)


def jobs_of_other_systems_are_taken(here: Installed) -> None:
    """Each page's submit, to be run later."""
    for page in ("from-bullmq", "from-cloud-tasks", "from-qstash", "from-sidekiq"):
        (submit,) = commands(DOCS / f"{page}.md")
        answer = json.loads(here.shell(submit))
        # Cloud Tasks' page repeats the key of BullMQ's with another body
        assert answer.get("status") == "scheduled" or (page, answer["status"]) == ("from-cloud-tasks", 422), answer


def endpoints_of_svix_are_taken(here: Installed) -> None:
    """A customer's endpoint is registered with the secret that it had, and its event is a job."""
    register, send = commands(DOCS / "from-svix.md")
    assert json.loads(here.shell(register))["name"] == "customer-18"
    (sent,) = json.loads(here.shell(send))["results"]
    assert here.api.get(f"/jobs/{sent['job_id']}").json()["tags"] == ["invoice.paid"]
    assert here.api.delete(f"/jobs/{sent['job_id']}").status_code in (200, 202)


def limits_hold(here: Installed) -> None:
    look, submit = commands(DOCS / "limits.md")
    jobs = [{"target": "mail", "payload": at} for at in range(60)]
    assert here.api.post("/jobs/batch", json=jobs).status_code == 200
    until_sync(lambda: '"waiting_on":"rate"' in here.shell(look), timeout_s=60, every_s=0.2)
    assert here.ended(json.loads(here.shell(submit))["job_id"])["result"] == "2026-01"

    batch = [{"target": "ledger", "key": "k", "payload": text} for text in ("fails at first", "comes later")]
    batch[0] |= {"retry": {"base": "200ms"}}  # type: ignore[dict-item]
    ids = [each["job_id"] for each in here.api.post("/jobs/batch", json=batch).json()["results"]]
    first, second = (here.ended(job_id) for job_id in ids)
    assert (first["attempts"], second["attempts"]) == (2, 1)
    assert first["finished_at"] <= second["started_at"]


def outage_is_over(here: Installed) -> None:
    look, one, rest, watch = commands(DOCS / "outage.md")
    (here.folder / "down").touch()
    dead = [here.submit("invoice", {"order": at}, max_attempts=1) for at in range(3)]
    assert {record["reason"] for record in dead} == {"exhausted"}
    (here.folder / "down").unlink()
    shown = here.shell(look)
    assert all(record["job_id"] in shown for record in dead)
    assert "billing is down" in shown

    here.shell(one.replace("the-job_id-of-one", dead[0]["job_id"]))
    assert here.ended(dead[0]["job_id"])["status"] == "succeeded"

    now = datetime.now(UTC)
    since, until = (f"{now + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}" for hours in (-1, 1))
    rest = rest.replace("2026-01-31T12:00:00Z", since).replace("2026-01-31T13:30:00Z", until)
    started = json.loads(here.shell(rest))
    watch = watch.replace("the-replay_id", started["replay_id"])
    shown, _, stop = watch.rstrip().rpartition("\n")
    until_sync(lambda: '"state":"done"' in here.shell(shown), timeout_s=60, every_s=0.1)
    assert "is done already" in here.shell(f"{watch.partition(chr(10))[0]}\n{stop}")
    for record in dead[1:]:
        lost = f"/jobs/{record['job_id']}"
        until_sync(lambda lost=lost: here.api.get(lost).json()["status"] == "succeeded", timeout_s=60)  # type: ignore[misc]
