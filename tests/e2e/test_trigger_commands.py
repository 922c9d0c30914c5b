"""`gateway triggers test` and `gateway hook-url` against a running gateway."""

from __future__ import annotations

import json
import os

from tests.cli.shell import Done, Shell
from tests.e2e.installation import Installation

MORE = """
[targets.show]
executor = "command"
argv = ["cat"]

[triggers.repo]
verifier = "github"
secrets = ["s3cret"]
[[triggers.repo.routes]]
when = "headers.\\"x-github-event\\" == 'push'"
target = "show"

[triggers.plain]
verifier = "stripe"
secrets = ["whsec_s3cret"]
response = { status = 200, body = "" }
[[triggers.plain.routes]]
target = "show"

[triggers.chat]
verifier = "discord"
secrets = ["03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"]
[[triggers.chat.routes]]
target = "show"
"""


def gateway(here: Installation, *arguments: str, **environ: str) -> Done:
    return Shell(here.folder, **environ).run(*arguments)


def test_delivery_is_signed_sent_and_queued(installation: Installation) -> None:
    installation.configure(more=MORE)
    installation.up()
    base = str(installation.client.base_url)
    (installation.folder / "push.json").write_text('{"ref": "main", "n": 1.0}')
    put = {"verifier": "stripe", "secrets": ["whsec_another"], "routes": [{"target": "show"}]}
    assert installation.client.put("/triggers/late", json=put).status_code == 201
    for name, to in (("repo", base), ("late", f"{base}/hooks/late/")):
        done = gateway(installation, "triggers", "test", name, "--file", "push.json", "--event", "push", "--to", to)
        assert (done.code, done.stderr) == (0, "202 Accepted\n")
        job_id = json.loads(done.stdout)["jobs"][0]["job_id"]
        assert installation.ended(job_id)["result"] == {"ref": "main", "n": 1.0}
    again = ("triggers", "test", "repo", "--file", "push.json", "--header", "X-GitHub-Delivery: 1", "--to", base)
    answers = [json.loads(gateway(installation, *again, "--header", "X-GitHub-Event: push").stdout) for _ in range(2)]
    assert [answer["duplicate"] for answer in answers] == [False, True]
    done = gateway(installation, "triggers", "test", "repo", "--file", "push.json", "--event", "star", "--to", base)
    assert (done.code, done.stderr) == (0, "202 Accepted\naccepted, but no route holds\n")
    done = gateway(installation, "triggers", "test", "plain", "--file", "push.json", "--to", base)
    assert (done.code, done.stderr) == (0, "200 OK\nwhat became of it: gateway triggers deliveries plain\n")
    done = gateway(installation, "triggers", "test", "chat", "--file", "push.json", "--to", base)
    assert (done.code, done.stdout) == (os.EX_CONFIG, "")
    assert "public key" in done.stderr


def test_hook_url_is_what_to_paste(installation: Installation) -> None:
    installation.configure(more=MORE)
    base = {"GATEWAY_GATEWAY_PUBLIC_URL": "https://hooks.example/base/"}
    done = gateway(installation, "hook-url", "repo", **base)
    assert (done.code, done.stdout, done.stderr) == (0, "https://hooks.example/base/hooks/repo\n", "")
    done = gateway(installation, "hook-url", "nothing")
    assert done.code == 1
    assert "known: chat, plain, repo" in done.stderr
