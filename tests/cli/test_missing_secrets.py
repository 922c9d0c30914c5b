"""Commands in a terminal that has not the secrets that `gateway.toml` names by `{ env = … }` and `{ file = … }`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.errors import SecretMissing
from gateway.registry import Registry
from gateway.settings import load
from gateway.verifier import WebhookRequest
from tests.cli.shell import Shell
from tests.documents import free_port
from tests.servers import Server

CONFIG = """
[gateway]
signing_key = { env = "OUR_KEY" }
api_key = { env = "ADMIN_KEY" }

[targets.show]
executor = "command"
argv = ["cat"]

[targets.bill]
executor = "http"
url = "https://bill.example/"
secret = { env = "BILL_SECRET" }
limit = { concurrency = 3 }

[triggers.hub]
verifier = "github"
secrets = [{ env = "GITHUB_SECRET" }, { file = "/run/secrets/none" }]
routes = [{ target = "show" }]
"""


@pytest.fixture
def shell(valkey_server: Server, namespace: str, tmp_path: Path) -> Shell:
    (tmp_path / "gateway.toml").write_text(CONFIG)
    (tmp_path / "push.json").write_text("{}")
    ports = {"PORT": str(free_port()), "GATEWAY_GATEWAY_DISPATCHER_PORT": str(free_port())}
    return Shell(tmp_path, GATEWAY_REDIS_URL=valkey_server.url, GATEWAY_GATEWAY_NAMESPACE=namespace, **ports)


def test_commands_that_serve_and_sign_nothing_need_no_secret(shell: Shell) -> None:
    job_id = shell.json("jobs", "submit", "bill", "{}")["job_id"]
    assert [job["job_id"] for job in shell.json("jobs", "ls")["jobs"]] == [job_id]
    assert shell.json("jobs", "cancel", job_id)["status"] == "cancelled"
    for listed in (
        ("dlq", "ls"),
        ("lanes", "list"),
        ("apikeys", "list"),
        ("stats",),
        ("triggers", "deliveries", "hub"),
    ):
        shell.json(*listed)
    assert {target["name"] for target in shell.json("targets", "list")["targets"]} == {"bill", "show"}
    shown = shell.json("triggers", "show", "hub")
    assert (shown["verifier"], shown["secrets"]) == ("github", 2)
    assert "/hooks/hub" in shell.text("hook-url", "hub")
    assert "nothing answers" in shell.text("health", code=1)


def test_what_signs_serves_or_checks_asks_for_the_secret(shell: Shell) -> None:
    own = ("signing-keys", "list"), ("targets", "test", "bill"), ("config", "check"), ("dispatch",), ("serve",), ("up",)
    for command in own:
        assert "environment variable OUR_KEY is not set" in shell.refused(*command, code=os.EX_CONFIG)
    signed = shell.refused("triggers", "test", "hub", "--file", "push.json", code=os.EX_CONFIG)
    assert "gateway.toml: triggers.hub.secrets[0]: environment variable GITHUB_SECRET is not set" in signed
    (shell.folder / "gateway.toml").write_text(CONFIG.partition("\n\n")[2])
    for command in (("config", "check"), ("dispatch",), ("serve",), ("up",)):
        assert "is not set; set it to the secret" in shell.refused(*command, code=os.EX_CONFIG)


async def test_trigger_without_its_secret_lets_nothing_pass(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(CONFIG)
    trigger = Registry.build(load({}, tmp_path, secrets_required=False)).triggers["hub"]
    request = WebhookRequest("POST", "http://localhost/hooks/hub", (), b"{}")
    for attempt in (trigger.verifier.verify, trigger.verifier.sign):
        with pytest.raises(SecretMissing, match="GITHUB_SECRET"):
            attempt(request, 0.0)


def test_limits_of_a_target_are_the_same_without_its_secret(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(CONFIG.partition("\n\n")[2].replace('{ file = "/run/secrets/none" }', '"x"'))
    secrets = {"GITHUB_SECRET": "s", "BILL_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    whole = Registry.build(load(secrets, tmp_path))
    assert Registry.build(load({}, tmp_path, secrets_required=False)).flows == whole.flows


def test_job_is_not_taken_in_without_the_callback_that_its_target_wants(shell: Shell) -> None:
    told = 'callback = { url = "https://shop.example/", secret = { env = "TOLD_SECRET" } }'
    file = shell.folder / "gateway.toml"
    file.write_text(file.read_text().replace("[targets.bill]", f"[targets.bill]\n{told}"))
    assert {target["name"] for target in shell.json("targets", "list")["targets"]} == {"bill", "show"}
    said = shell.refused("jobs", "submit", "bill", "{}", code=1)
    assert "targets.bill.callback.secret: environment variable TOLD_SECRET is not set" in said
    assert shell.json("jobs", "list")["jobs"] == []
