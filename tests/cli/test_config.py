"""`gateway config`, `plugins`, `doctor` and `version` as programs read them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gateway import PLUGIN_API, __version__
from gateway.settings import load
from tests.cli.shell import Shell
from tests.documents import free_port
from tests.e2e.installation import Installation


def test_beginning_runs_as_it_is_and_names_every_default(bare: Shell) -> None:
    assert bare.json("config", "init") == {"written": "gateway.toml"}
    file = bare.folder / "gateway.toml"
    assert bare.json("config", "check") == {
        "well": True,
        "faults": [],
        "warnings": [],
        "targets": 1,
        "triggers": 0,
        "schedules": 0,
    }
    head, _, rest = file.read_text().partition("[gateway]")
    lines = re.sub(r"^# (?!\w+ =$)", "", rest, flags=re.MULTILINE)
    assert lines != rest
    file.write_text(f"{head}[gateway]{lines}")
    (empty := bare.folder / "empty").mkdir()
    ours, defaults = load({}, bare.folder), load({}, empty)
    for section in ("gateway", "egress", "lanes", "retention"):
        assert getattr(ours, section) == getattr(defaults, section)
        assert len(tomllib.loads(file.read_text())[section]) >= 1


def test_beginning_is_not_written_over_a_file_unless_forced(bare: Shell) -> None:
    (bare.folder / "gateway.toml").write_text("# mine\n")
    assert "--force" in bare.refused("config", "init", code=os.EX_CONFIG)
    assert (bare.folder / "gateway.toml").read_text() == "# mine\n"
    assert bare.text("config", "init", "--force") == "wrote gateway.toml; next: gateway up\n"
    assert bare.json("config", "init", "other.toml") == {"written": "other.toml"}
    assert "cannot be written" in bare.refused("config", "init", "none/x.toml", code=os.EX_CONFIG)


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        (b"\xff", {}, "\\xff"),
        ("ö".encode(), {"PYTHONIOENCODING": "ascii"}, "\\xf6"),
    ],
)
def test_name_that_cannot_be_printed_is_told_escaped(name: bytes, more: dict[str, str], told: str, bare: Shell) -> None:
    def run(*options: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "gateway", "config", "init", *options, os.fsdecode(name)]
        return subprocess.run(command, cwd=bare.folder, env=bare.environ | more, capture_output=True, timeout=60)

    done = run()
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"wrote {told}; next: gateway up\n", b"")
    done = run("--json", "--force")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["written"] in (told, name.decode(errors="replace"))


def test_examples_of_the_beginning_load_when_they_are_taken_in(bare: Shell) -> None:
    bare.text("config", "init")
    file = bare.folder / "gateway.toml"
    head = file.read_text().partition("# From here on")[0]
    text = re.sub(r"^# (?=\[|\w+ = )", "", head, flags=re.MULTILINE)
    file.write_text(text.replace("shop.images:resize", "json:dumps").replace('{ env = "GITHUB_SECRET" }', '"s"'))
    found = bare.json("config", "check")
    assert (found["targets"], found["triggers"], found["schedules"]) == (2, 1, 1)


def test_faults_are_told_with_their_places(bare: Shell) -> None:
    (bare.folder / "gateway.toml").write_text('[targets.a]\nexecutor = "pithon"\n[targets.b]\nexecutor = "command"\n')
    found = bare.json("config", "check", code=os.EX_CONFIG)
    assert [fault["place"] for fault in found["faults"]] == [
        "gateway.toml: targets.a.executor",
        "gateway.toml: targets.b",
    ]


def test_target_of_notices_is_known_by_the_file(bare: Shell) -> None:
    text = '[notices]\ntarget = "{}"\n[targets.tell]\nexecutor = "python"\ncallable = "json:dumps"\n'
    (bare.folder / "gateway.toml").write_text(text.format("tell"))
    assert bare.json("config", "check")["well"]
    (bare.folder / "gateway.toml").write_text(text.format("tel") + '[targets.b]\nexecutor = "pithon"\n')
    faults = bare.json("config", "check", code=os.EX_CONFIG)["faults"]
    assert [each["place"] for each in faults] == ["gateway.toml: targets.b.executor", "gateway.toml: notices.target"]
    assert 'did you mean "tell"?' in faults[1]["detail"]


def test_wrong_target_of_notices_is_blamed_on_the_variable_that_names_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path, GATEWAY_NOTICES_TARGET="tel")
    (fault,) = shell.json("config", "check", code=os.EX_CONFIG)["faults"]
    assert fault["place"] == "environment: GATEWAY_NOTICES_TARGET"


def test_port_of_both_is_a_fault_that_names_both_places(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("[gateway]\ndispatcher_port = 9090\n")
    shell = Shell(tmp_path, PORT="9090")
    told = "gateway.dispatcher_port (gateway.toml): 9090 is the gateway's too: gateway.port (PORT) is 9090"
    for command in ("config", "check"), ("up",), ("up", "--host", "0.0.0.0"):
        assert told in shell.refused(*command, code=os.EX_CONFIG)
    more = shell.refused("up", "--port", "9091", "--processes", "2", code=os.EX_CONFIG)
    assert "9090 to 9091 is the gateway's too: gateway.port (--port) is 9091" in more
    (tmp_path / "gateway.toml").write_text('[gateway]\ndispatcher_port = 9090\nhost = "127.0.0.2"\n')
    shell.text("config", "check")


def test_tracing_that_is_not_supported_is_a_fault(tmp_path: Path) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}
    for variable, text in (("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_TRACES_SAMPLER", "sometimes")):
        shell = Shell(tmp_path, **endpoint, **{variable: text})
        (fault,) = shell.json("config", "check", code=os.EX_CONFIG)["faults"]
        assert fault["place"] == f"environment: {variable}"
    Shell(tmp_path, **endpoint).text("config", "check")


def test_folder_without_a_file_is_told_how_to_get_one(bare: Shell) -> None:
    said = bare.text("config", "check")
    assert said == f"no gateway.toml in {bare.folder}: defaults only; `gateway config init` writes one\n"


def test_file_of_another_name_is_checked_and_shown(bare: Shell) -> None:
    (bare.folder / "next.toml").write_text("[gateway]\nslots = 7\n[targets.a]\nexecutor = 'pithon'\n")
    (fault,) = bare.json("config", "check", "next.toml", code=os.EX_CONFIG)["faults"]
    assert fault["place"] == "next.toml: targets.a.executor"
    shown = bare.json("config", "show", "next.toml")
    assert (shown["source"], shown["targets"]["a"]["executor"]) == ("next.toml", "pithon")
    assert "none.toml" in bare.refused("config", "check", "none.toml", code=os.EX_CONFIG)


def test_what_will_fail_for_certain_is_warned_of(bare: Shell) -> None:
    target = '[targets.{}]\nexecutor = "http"\nurl = "http://{}/"\n'
    trigger = '[triggers.sms]\nverifier = "twilio"\nsecrets = ["t"]\nroutes = [{ target = "near" }]\n'
    hosts = {"near": "127.0.0.1:8081", "open": "10.1.2.3", "six": "[::1]", "named": "shop.example", "far": "8.8.8.8"}
    tables = "".join(target.format(*each) for each in hosts.items())
    (bare.folder / "gateway.toml").write_text(f'[egress]\nallow = ["10.1.0.0/16"]\n{trigger}{tables}')
    found = bare.json("config", "check")
    assert found["well"]
    assert [each.partition(":")[0] for each in found["warnings"]] == ["triggers.sms", "targets.near", "targets.six"]
    assert "set public_url in [gateway]" in found["warnings"][0]
    assert 'add "127.0.0.1/32" to [egress] allow' in found["warnings"][1]
    done = bare.run("config", "check")
    assert (done.code, done.stdout) == (0, "gateway.toml: 5 targets, 1 trigger, 0 schedules, 3 warnings\n")
    assert done.stderr.count("gateway: gateway.toml: ") == 3


def test_what_is_in_force_is_shown_with_where_it_comes_from_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(
        '[gateway]\nlease = "90s"\nslots = 7\n[targets.a]\nexecutor = "http"\nurl = "http://h/"\nsecret = "hush"\n'
    )
    secrets = {"GATEWAY_API_KEY": "gwk_a_hushhushhushhush", "REDIS_URL": "rediss://u:hush@h:1/2?password=hush"}
    shell = Shell(tmp_path, GATEWAY_GATEWAY_SLOTS="8", **secrets)
    done = shell.run("config", "show", "--json")
    assert "hush" not in done.stdout
    assert done.json["redis"] == "rediss://u:***@h:1/2"
    found = {f"{each['section']}.{each['key']}": (each["value"], each["from"]) for each in done.json["settings"]}
    assert found["gateway.lease"] == ("90s", "gateway.toml")
    assert found["gateway.slots"] == (8, "GATEWAY_GATEWAY_SLOTS")
    assert found["gateway.api_key"] == ("(a secret)", "GATEWAY_API_KEY")
    assert found["gateway.port"] == (8080, "default")
    assert done.json["targets"]["a"]["executor"] == "http"
    shown = shell.text("config", "show")
    assert "hush" not in shown
    assert re.search(r"gateway\.slots +8 +GATEWAY_GATEWAY_SLOTS", shown)


def test_targets_of_a_module_of_this_folder_are_those_of_every_command(bare: Shell) -> None:
    (bare.folder / "shop.py").write_text('import gateway\n@gateway.target("pack")\ndef pack(payload): ...\n')
    toml = 'imports = ["shop"]\n[triggers.t]\nverifier = "none"\nroutes = [{ target = "pack" }]\n'
    (bare.folder / "gateway.toml").write_text(toml)
    assert bare.json("config", "check")["targets"] == 1
    assert bare.json("config", "show")["targets"]["pack"]["executor"] == "python"
    doctor = bare.run("doctor")
    assert "gateway.toml: 1 target, 1 trigger, 0 schedules, all well" in doctor.stdout
    (bare.folder / "shop.py").write_text("1 / 0")
    assert "fault    configuration: imports: shop: cannot be imported" in bare.run("doctor").stdout


def test_version_and_plugins_are_json_too(bare: Shell) -> None:
    assert bare.json("version") == {"version": __version__}
    found = bare.json("plugins")
    assert found["plugin_api"] == PLUGIN_API
    assert "executors.http" in {plugin["name"] for plugin in found["plugins"]}


def test_plugin_project_is_told_file_by_file(bare: Shell) -> None:
    made = bare.json("plugins", "new", "acme-printer")
    assert made["written"] == "acme-printer"
    assert "pyproject.toml" in made["files"]
    assert all((bare.folder / "acme-printer" / file).is_file() for file in made["files"])
    assert "is there already" in bare.refused("plugins", "new", "acme-printer", code=os.EX_CONFIG)
    (bare.folder / "taken").touch()
    assert "choose another name" in bare.refused("plugins", "new", "taken", code=os.EX_CONFIG)


def test_doctor_without_redis_still_tells_of_the_configuration(bare: Shell) -> None:
    (bare.folder / "gateway.toml").write_text('[targets.a]\nexecutor = "pithon"\n')
    lines = bare.run("doctor", "--json").lines
    assert [(each["check"], each["level"]) for each in lines] == [("configuration", "fault"), ("redis", "fault")]
    assert "pithon" in lines[0]["detail"]
    assert "GATEWAY_REDIS_URL: not set" in lines[1]["detail"]
    assert "fault    redis: " in bare.text("doctor", code=1)


def test_doctor_says_that_the_folder_has_no_file(bare: Shell) -> None:
    said = bare.text("doctor", code=1)
    assert f"ok       configuration: no gateway.toml in {bare.folder}: defaults only; " in said
    (bare.folder / "gateway.toml").write_text('[targets.a]\nexecutor = "command"\nargv = ["cat"]\n')
    assert "ok       configuration: gateway.toml: 1 target, 0 triggers, 0 schedules, all well" in bare.text(
        "doctor", code=1
    )


def test_doctor_tells_each_finding_on_a_line(installed: Installation) -> None:
    shell = Shell(installed.folder, PORT=str(free_port()))
    done = shell.run("doctor", "--json")
    assert {finding["level"] for finding in done.lines} <= {"ok", "warning"}, done
    assert done.code == 0
    assert {"configuration", "redis"} <= {finding["check"] for finding in done.lines}
