"""The pages of `docs/` that are made of examples: each page's own run as a reader's would."""

from __future__ import annotations

import hmac
import inspect
import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from executors.command import CommandConfig
from executors.http import HttpConfig
from executors.python import PythonConfig
from gateway import signing
from gateway.callbacks import render
from gateway.hooks import HookSpecs
from gateway.jobs import Callback, Cause, Options
from gateway.registry.loading import HOOKS
from gateway.settings import field_names
from gateway.verifier import REASONS
from plugins.github import GithubConfig
from plugins.hmac import HmacConfig
from plugins.standard import StandardConfig
from tests.documents import README, ROOT, Page, blocks, files_of, installed, secrets_in, write

DOCS = ROOT / "docs"
CALL_OUTS, CALLBACKS, EXECUTORS, PLUGINS, WEBHOOKS = (
    DOCS / f"{name}.md" for name in ("call-outs", "callbacks", "executors", "plugins", "webhooks")
)
HOOK_PAGES = tuple(DOCS / "hooks" / f"{hook.replace('_', '-')}.md" for hook in HOOKS)
PLUGIN_PAGES = (PLUGINS, *HOOK_PAGES)
LOAD = """
import json, os, pathlib
from gateway.registry import Registry
from gateway.settings import load
registry = Registry.build(load(os.environ, pathlib.Path.cwd()))
print(json.dumps({"faults": list(map(str, registry.check())), "targets": sorted(registry.targets)}))
"""
SECRET = "whsec_" + "QUJD" * 8


def test_webhooks_page_tells_every_reason_of_a_rejection() -> None:
    table = WEBHOOKS.read_text().split("### Why one was rejected")[1].split("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == ("reason", *REASONS)


@pytest.mark.parametrize("page", [README, CALL_OUTS, EXECUTORS, PLUGIN_PAGES, WEBHOOKS], ids=str)
def test_configuration_of_a_page_loads_and_its_targets_can_run(page: Page, tmp_path: Path) -> None:
    files = files_of(README, page)
    write(tmp_path, files)
    environ = {"PATH": "/usr/bin:/bin", **secrets_in(files["gateway.toml"])}
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOAD], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["targets"] == sorted(tomllib.loads(files["gateway.toml"])["targets"])


@pytest.mark.parametrize(
    ("page", "heading", "config"),
    [
        (EXECUTORS, "python", PythonConfig),
        (CALL_OUTS, "http", HttpConfig),
        (EXECUTORS, "command", CommandConfig),
        (WEBHOOKS, "github", GithubConfig),
        (WEBHOOKS, "standard", StandardConfig),
        (WEBHOOKS, "hmac", HmacConfig),
    ],
)
def test_table_of_keys_is_complete(page: Path, heading: str, config: type[Any]) -> None:
    section = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(f"`{heading}`"))
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", text, re.MULTILINE))
    assert set(rows) == set(field_names(config))
    required = {name for name, default in rows.items() if default == "required"}
    assert required == {field.encode_name for field in msgspec.structs.fields(config) if field.required}


def test_executor_examples_do_what_the_page_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = files_of(EXECUTORS)
    more = '\n[targets.fetch]\nexecutor = "python"\ncallable = "shop:fetch"\n[egress]\nallow = ["127.0.0.1/32"]\n'
    files["gateway.toml"] += more
    with installed(tmp_path_factory.mktemp("ex"), files, GATEWAY_IMPORTS="tasks") as here:
        assert here.submit("poster", {"image": "cat.png"})["result"] == {"image": "cat.png", "width": 200}
        assert here.submit("price", {"image": "cat.png"})["result"] == 3
        record = here.submit("resize", {"image": "cat.png"}, retry={"base": "10ms"})
        assert record["attempts"] == 2
        assert record["result"] == {"image": "cat.png", "job": record["job_id"]}
        record = here.submit("resize", {})
        assert (record["reason"], record["error"]["message"]) == ("fatal", "there is no image to resize")
        record = here.submit("sort", [3, 1])
        assert record["result"] == f"hello, job {record['job_id']}\n[3,1]"
        record = here.submit("fetch", {"url": f"http://127.0.0.1:{here.api.base_url.port}/livez"})
        assert record["result"]["status"] == 200


def test_plugin_examples_do_what_the_page_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = files_of(PLUGIN_PAGES)
    entry_points = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]
    assert entry_points == {"gateway": {"shop": "shop_plugin"}}
    with installed(tmp_path_factory.mktemp("pl"), files) as here:
        assert here.submit("label", {"sheets": 3})["result"] == {"tray": 2, "printed": 3}
        began_s = time.monotonic()
        record = here.submit("label", {"sheets": 12})
        assert (record["status"], record["attempts"]) == ("succeeded", 2)
        assert time.monotonic() - began_s >= 0.2
        assert [event.get("delay_ms") for event in events(here.api, record)] == [None, None, 200, None, None]
        assert here.submit("label", {"sheets": 101})["error"]["sheets"] == 101

        body, secret = b'{"items":7}', secrets_in(files["gateway.toml"])["TILL_SECRET"]
        mac = hmac.digest(secret.encode(), body, "sha256").hex()
        assert (
            here.api.post("/hooks/till", content=body, headers={b"x-till-mac": mac[:-1].encode() + b"\xe9"}).status_code
            == 401
        )
        answer = here.api.post("/hooks/till", content=body, headers={"x-till-mac": mac})
        sold = here.ended(answer.json()["jobs"][0]["job_id"])
        assert sold["result"] == {"tray": 2, "printed": 7}
    assert f"label succeeded {sold['job_id']}" in here.log()
    assert here.log().count("label dead ") == 1


def test_every_hook_has_a_page_with_its_arguments() -> None:
    assert sorted(HOOKS) == sorted(name for name in vars(HookSpecs) if not name.startswith("_"))
    for hook, page in zip(HOOKS, HOOK_PAGES, strict=True):
        arguments = [name for name in inspect.signature(getattr(HookSpecs, hook)).parameters if name != "self"]
        assert page.read_text().startswith(f"# `{hook}({', '.join(arguments)})`\n"), page
        assert f"(hooks/{page.name})" in PLUGINS.read_text()
    assert {page.name for page in (DOCS / "hooks").iterdir()} == {page.name for page in HOOK_PAGES}


def events(api: Any, record: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/jobs/{record['job_id']}/events").json()["events"]
    return found


@pytest.mark.parametrize("file", ["verify_here.py", "verify_standard.py", "verify_public.py"])
def test_verifying_example_accepts_a_genuine_callback_and_nothing_else(file: str) -> None:
    namespace: dict[str, Any] = {}
    exec(files_of(CALLBACKS)[file], namespace)
    key = signing.SigningKey.generate()
    asymmetric = file == "verify_public.py"
    known, other = (key.public, signing.SigningKey.generate().public) if asymmetric else (SECRET, SECRET[:-4] + "QUJE")
    body = callback_body()
    for age_s, fresh in ((0, True), (600, False)):
        at_s = int(time.time()) - age_s
        secrets, private = ([], key.private_key) if asymmetric else ([SECRET], None)
        signature = signing.sign("job-1", at_s, body, secrets=secrets, private_key=private)
        headers = {"Webhook-Id": "job-1", "Webhook-Timestamp": str(at_s), "Webhook-Signature": signature}
        assert namespace["is_genuine"](headers, body, known) is fresh
        assert not namespace["is_genuine"](headers, body.replace(b"job.", b"jab."), known)
        assert not namespace["is_genuine"](headers | {"Webhook-Id": "job-2"}, body, known)
        assert not namespace["is_genuine"](headers, body, other)


def test_callback_body_of_the_page_has_the_fields_that_are_sent() -> None:
    submitted, shown = (json.loads(block.text) for block in blocks(CALLBACKS) if block.language == "json")
    sent = json.loads(callback_body())
    assert list(shown) == list(sent)
    assert list(shown["data"]) == list(sent["data"])
    assert set(submitted["callback"]) == set(field_names(Callback))


def callback_body() -> bytes:
    cause = Cause("01a2278e-ce24-786a-bccd-85425e6ddd00", "resize", "succeeded", 2, 1_773_500_966_535)
    callback = Callback("https://shop.example/callbacks")
    return render(Options(cause=cause, parent=Options(callback=callback)), b'{"width":200}').body
