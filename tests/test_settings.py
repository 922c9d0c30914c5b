"""What can be configured, from where, and what a wrong key or value says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from gateway.backoff import RetryPolicy
from gateway.durations import Duration
from gateway.errors import ConfigError
from gateway.secret import Secret
from gateway.settings import RouteSettings, SecretSource, Settings, decode, field_names, load, read_target
from gateway.settings.decoding import TOP_LEVEL
from gateway.settings.environment import CONFIG, PLUGINS, REDIS_URL, SECTIONS, SHORT_NAMES, full_name
from gateway.signing import SigningKey

API_KEY = "gwk_boot_0123456789abcdef0123456789"
DOCS = Path(__file__).parent.parent / "docs" / "configuration.md"


def configure(directory: Path, toml: str = "", environ: Mapping[str, str] | None = None) -> Settings:
    (directory / "gateway.toml").write_text(toml)
    return load(environ or {}, directory)


def fault(directory: Path, toml: str = "", environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Place and detail of what is wrong."""
    with pytest.raises(ConfigError) as caught:
        configure(directory, toml, environ)
    return caught.value.place, caught.value.detail


def test_load_gives_defaults_where_nothing_is_configured(tmp_path: Path) -> None:
    settings = load({}, tmp_path)
    assert settings.redis_url is None
    assert settings.plugins_only is None
    assert settings.gateway.host == "127.0.0.1"
    assert (settings.gateway.port, settings.gateway.dispatcher_port) == (8080, 8081)
    assert (settings.gateway.lease, settings.gateway.slots, settings.gateway.max_stalls) == (30.0, 100, 2)
    assert settings.gateway.max_body == 1024 * 1024
    assert settings.lanes.order == ("critical", "default", "low")
    assert (settings.retention.finished, settings.retention.dead_max) == (86400.0, 10_000)
    assert settings.targets == {}
    assert settings.directory == tmp_path


def test_load_reads_the_whole_file(tmp_path: Path) -> None:
    settings = configure(
        tmp_path,
        """
        plugins = ["shop.gateway_plugin"]
        [gateway]
        lease = "45s"
        public_url = "https://hooks.example"
        [egress]
        allow = ["10.1.0.0/16", "billing.internal"]
        [lanes]
        order = ["fast", "slow"]
        [targets.resize]
        executor = "python"
        callable = "shop.images:resize"
        timeout = "2m"
        retry = { policy = "fixed", max_attempts = 3, base = "5s" }
        [triggers.github]
        verifier = "github"
        secrets = ["s3cret"]
        body_limit = 2048
        [[triggers.github.routes]]
        when = "body.ref"
        target = "resize"
        """,
    )
    assert settings.plugins == ("shop.gateway_plugin",)
    assert settings.gateway.lease == 45.0
    assert settings.egress.allow == ("10.1.0.0/16", "billing.internal")
    resize = settings.targets["resize"]
    assert (resize.executor, resize.timeout, resize.config) == ("python", 120.0, {"callable": "shop.images:resize"})
    assert (resize.retry.policy, resize.retry.max_attempts, resize.retry.base) == ("fixed", 3, 5.0)
    github = settings.triggers["github"]
    assert (github.verifier, github.body_limit, github.config) == ("github", 2048, {"secrets": ["s3cret"]})
    assert github.routes == (RouteSettings(target="resize", when="body.ref"),)


def test_lane_of_a_job_without_one_is_default_or_the_least_urgent(tmp_path: Path) -> None:
    assert configure(tmp_path).lanes.default == "default"
    assert configure(tmp_path, '[lanes]\norder = ["fast", "slow"]').lanes.default == "slow"


def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    settings = configure(
        tmp_path,
        '[gateway]\nslots = 5\nlease = "10s"\n[egress]\nallow = ["192.0.2.0/24"]',
        {
            "GATEWAY_GATEWAY_SLOTS": "7",
            "GATEWAY_EGRESS_ALLOW": "10.0.0.0/8, 127.0.0.0/8",
            "GATEWAY_RETENTION_DEAD": "90",
            "GATEWAY_LANES_ORDER": "a,b",
        },
    )
    assert (settings.gateway.slots, settings.gateway.lease) == (7, 10.0)
    assert settings.egress.allow == ("10.0.0.0/8", "127.0.0.0/8")
    assert settings.retention.dead == 90.0
    assert settings.lanes.order == ("a", "b")


def test_every_key_can_be_set_by_its_variable(tmp_path: Path) -> None:
    samples = {
        "public_url": "https://hooks.example",
        "api_key": API_KEY,
        "signing_key": SigningKey.generate().reveal(),
        "trusted_proxies": "10.0.0.0/8",
        "previous_signing_keys": SigningKey.generate().reveal(),
        "url_jobs": "true",
        "max_arriving": "1048576",
        "namespace": "other",
        "durability": "replica",
        "log_format": "json",
        "log_level": "debug",
        "traces_from_outside": "9/s",
        "host": "0.0.0.0",
        "dispatcher_host": "0.0.0.0",
        "allow": "10.0.0.0/8",
        "order": "one,two",
        "policy": "strict",
        "weights": "one=2,two=1",
        "max_wait": "low=9s",
        "max_depth": "low=9",
    }
    for section, kind in SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            text = samples.get(
                field.name, "1024" if field.name.startswith("max_") and field.name != "max_stalls" else "9"
            )
            text = "128" if field.name == "max_headers" else text
            settings = load({full_name(section, field.name): text}, tmp_path)
            value = getattr(getattr(settings, section), field.name)
            shown = value.reveal() if isinstance(value, Secret) else value
            if isinstance(value, bool):
                shown = str(value).lower()
            if isinstance(value, tuple):
                shown = ",".join(each.reveal() if isinstance(each, Secret) else each for each in value)
            if isinstance(value, dict):
                shown = ",".join(f"{name}={each}" for name, each in value.items()).replace("9.0", "9s")
            assert str(shown).removesuffix(".0") == text.removesuffix(".0"), field.name


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    empty = dict.fromkeys(
        ["GATEWAY_REDIS_URL", "REDIS_URL", "PORT", "GATEWAY_API_KEY", "GATEWAY_PLUGINS", "GATEWAY_GATEWAY_SLOTS"], ""
    )
    settings = configure(tmp_path, "[gateway]\nslots = 5", empty)
    assert (settings.redis_url, settings.plugins_only, settings.gateway.api_key) == (None, None, None)
    assert (settings.gateway.port, settings.gateway.slots) == (8080, 5)


def test_short_names_set_their_keys_and_full_names_win(tmp_path: Path) -> None:
    environ = {"PORT": "9000", "GATEWAY_API_KEY": API_KEY}
    settings = load(environ, tmp_path)
    assert settings.gateway.port == 9000
    assert settings.gateway.api_key == Secret(API_KEY)
    assert load(environ | {"GATEWAY_GATEWAY_PORT": "9001"}, tmp_path).gateway.port == 9001


def test_redis_url_falls_back_to_the_common_name(tmp_path: Path) -> None:
    both = {"GATEWAY_REDIS_URL": "redis://one", "REDIS_URL": "redis://two"}
    assert load(both, tmp_path).redis_url == Secret("redis://one")
    assert load({"REDIS_URL": "rediss://u:pw@two"}, tmp_path).redis_url == Secret("rediss://u:pw@two")
    assert "pw" not in repr(load({"REDIS_URL": "rediss://u:pw@two"}, tmp_path))


def test_redis_url_of_another_scheme_is_refused_without_showing_it(tmp_path: Path) -> None:
    place, detail = fault(tmp_path, "", {"REDIS_URL": "http://u:hunter2@host"})
    assert place == "environment: REDIS_URL"
    assert "redis://" in detail
    assert "hunter2" not in detail


def test_gateway_plugins_restricts_and_a_comma_is_the_empty_list(tmp_path: Path) -> None:
    assert load({"GATEWAY_PLUGINS": "shop, mail"}, tmp_path).plugins_only == ("shop", "mail")
    assert load({"GATEWAY_PLUGINS": ","}, tmp_path).plugins_only == ()


def test_gateway_config_names_the_file_and_messages_name_it(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[gateway]\nslots = 0")
    with pytest.raises(ConfigError, match=r"other.toml: gateway.slots: expected int >= 1"):
        load({"GATEWAY_CONFIG": "other.toml"}, tmp_path)


def test_gateway_config_that_names_no_file_is_an_error(tmp_path: Path) -> None:
    place, detail = fault(tmp_path, "", {"GATEWAY_CONFIG": "missing.toml"})
    assert place == "environment: GATEWAY_CONFIG"
    assert "there is no file missing.toml" in detail


def test_gateway_config_that_names_a_folder_is_an_error(tmp_path: Path) -> None:
    assert fault(tmp_path, "", {"GATEWAY_CONFIG": "."})[1].startswith("cannot be read")


def test_file_of_an_editor_that_marks_utf_8_is_read(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_bytes(b"\xef\xbb\xbf[gateway]\r\nport = 8090\r\n")
    assert load({}, tmp_path).gateway.port == 8090


def test_toml_syntax_error_tells_line_and_column(tmp_path: Path) -> None:
    place, detail = fault(tmp_path, "[gateway]\nslots = = 3")
    assert place == "gateway.toml: line 2, column 9"
    assert detail.startswith("not TOML: ")


def test_text_without_quotes_is_told_what_it_lacks(tmp_path: Path) -> None:
    place, detail = fault(tmp_path, "[targets.a]\r\nexecutor = python\r\n")
    assert (place, detail) == (
        "gateway.toml: line 2, column 12",
        'not TOML: Invalid value; a text stands in quotes: key = "text"',
    )
    assert "quotes" not in fault(tmp_path, "[gateway]\nslots = = 3")[1]


def test_file_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(ConfigError, match=r"gateway.toml: is not UTF-8 text \(byte 5\)"):
        load({}, tmp_path)


@pytest.mark.parametrize(
    ("toml", "place", "detail"),
    [
        ("gatway = 3", "gateway.toml", 'unknown key "gatway"; did you mean "gateway"? known: '),
        ("gateway = 3", "gateway.toml: gateway", "expected a table, got int"),
        ("[gateway]\nslot = 3", "gateway.toml: gateway", 'unknown key "slot"; did you mean "slots"?'),
        ("[gateway]\nslots = 0", "gateway.toml: gateway.slots", "expected int >= 1"),
        ("[gateway]\nslots = 10001", "gateway.toml: gateway.slots", "expected int <= 10000"),
        ('[gateway]\nslots = "9"', "gateway.toml: gateway.slots", "expected int, got str"),
        ('[gateway]\nlease = "2h"', "gateway.toml: gateway.lease", "must lie between 1s and 1h"),
        ('[gateway]\nlease = "soon"', "gateway.toml: gateway.lease", "not a duration: 'soon'; write"),
        ('[gateway]\nlog_format = "xml"', "gateway.toml: gateway.log_format", "write one of: auto, json, console"),
        ('[gateway]\ndurability = "disk"', "gateway.toml: gateway.durability", "write one of: memory, fsync, replica"),
        ('[gateway]\nnamespace = "a:b"', "gateway.toml: gateway.namespace", "is not a name"),
        ('[gateway]\nhost = ""', "gateway.toml: gateway.host", "is empty"),
        (f'[gateway]\nhost = "{"a" * 64}"', "gateway.toml: gateway.host", "not an address"),
        ('[gateway]\ndispatcher_host = "a..b"', "gateway.toml: gateway.dispatcher_host", "not an address"),
        (f"[gateway]\nport = {'1' * 5000}", "gateway.toml", "more than 4300 digits"),
        (f"[gateway]\nport = {'[' * 5000}", "gateway.toml", "is nested too deep"),
        (f"[schedules.a]\npayload{'.a' * 3000} = 1", "gateway.toml", "is nested too deep"),
        ('[gateway]\npublic_url = "hooks"', "gateway.toml: gateway.public_url", 'write "https://'),
        ('[gateway]\npublic_url = "https://h/\\n"', "gateway.toml: gateway.public_url", 'write "https://'),
        ('[gateway]\npublic_url = "https://a\\u0000b"', "gateway.toml: gateway.public_url", 'write "https://'),
        ('[gateway]\npublic_url = "http://[x"', "gateway.toml: gateway.public_url", 'write "https://'),
        ("[gateway]\npartitions = 257", "gateway.toml: gateway.partitions", "expected int <= 256"),
        ('[egress]\nallow = ["::1", "10.1.2.3/16"]', "gateway.toml: egress.allow[1]", 'write "10.1.0.0/16"'),
        ("[egress]\nallow = [5]", "gateway.toml: egress.allow[0]", "expected str, got int"),
        ("[lanes]\norder = []", "gateway.toml: lanes.order", "between 1 and 16"),
        ('[lanes]\norder = ["a", "a"]', "gateway.toml: lanes.order[1]", '"a" is named twice'),
        ('[lanes]\norder = ["a b"]', "gateway.toml: lanes.order[0]", "'a b' is not a name"),
        ('[lanes]\npolicy = "fair"', "gateway.toml: lanes.policy", "fair"),
        ('[lanes]\norder = ["a"]\npolicy = "weighted"', "gateway.toml: lanes.weights", "no weight for the lane a"),
        ("[lanes]\nmax_wait = { slow = 5 }", "gateway.toml: lanes.max_wait.slow", "no such lane"),
        ("[lanes]\nmax_wait = { low = 0 }", "gateway.toml: lanes.max_wait.low", "between 100ms and 30d"),
        ("[lanes]\nmax_depth = { low = 0 }", "gateway.toml: lanes.max_depth", ">= 1"),
        ('[retention]\nfinished = "-1s"', "gateway.toml: retention.finished", "not a duration"),
        ("[[targets.a]]\nlane = 'a'", "gateway.toml: targets.a", "got list; write [targets.a], in single brackets"),
        ('plugins = "a"', "gateway.toml: plugins", "expected array, got str; write it in brackets, [ ]"),
        (
            '[triggers.g]\nverifier = "x"\n[triggers.g.routes]\ntarget = "a"',
            "gateway.toml: triggers.g.routes",
            "expected array, got a table; write its table in double brackets, [[…]]",
        ),
        ("targets.resize = 3", "gateway.toml: targets.resize", "expected a table, got int"),
        ("[targets.resize]", "gateway.toml: targets.resize", 'missing key "executor"'),
        (
            '[targets.resize]\nexecuter = "http"\nurl = "http://h/"',
            "gateway.toml: targets.resize",
            'missing key "executor"; did you mean it by "executer"?',
        ),
        (
            '[triggers.hub]\nverifier = "github"\n[[triggers.hub.route]]\ntarget = "a"',
            "gateway.toml: triggers.hub",
            'missing key "routes"; did you mean it by "route"?',
        ),
        ('[targets."a/b"]\nexecutor = "http"', 'gateway.toml: targets."a/b"', "'a/b' is not a name"),
        ('[targets."gateway.x"]\nexecutor = "http"', 'gateway.toml: targets."gateway.x"', "the gateway's own"),
        ('[targets.a]\nexecutor = "http"\ntimeout = "1x"', "gateway.toml: targets.a.timeout", "not a duration"),
        ('[targets.a]\nexecutor = "http"\ntimeout = 0', "gateway.toml: targets.a.timeout", "between 1ms and 7d"),
        (
            '[targets.a]\nexecutor = "http"\nretry = { bass = 1 }',
            "gateway.toml: targets.a.retry",
            'unknown key "bass"; did you mean "base"? known: policy, max_attempts, base, cap',
        ),
        (
            '[targets.a]\nexecutor = "http"\nretry = { max_attempts = 0 }',
            "gateway.toml: targets.a.retry",
            "max_attempts lies between 1 and 1000",
        ),
        ('[triggers.g]\nverifier = "github"\nroutes = []', "gateway.toml: triggers.g.routes", "needs a route"),
        (
            '[triggers.g]\nverifier = "github"\nresponse = { status = 204, body = "x" }\nroutes = [{ target = "a" }]',
            "gateway.toml: triggers.g.response",
            "status 204 has no body; leave body out, or write status = 200",
        ),
        (
            '[triggers.g]\nverifier = "x"\n[[triggers.g.routes]]\ntarget = "a"\n[[triggers.g.routes]]\nwhere = "b"',
            "gateway.toml: triggers.g.routes[1]",
            'unknown key "where"; did you mean "when"?',
        ),
        ('plugins = ["shop/plugin.py"]', "gateway.toml: plugins[0]", 'write "package.module"'),
        (
            '[targets.a]\nexecutor = "http"\nlimit = "5/s"',
            "gateway.toml: targets.a.limit",
            'expected a table such as { rate = "5/s", concurrency = 2 }, got str',
        ),
        (
            '[targets.a]\nexecutor = "http"\nlimit = { per_key = 1 }',
            "gateway.toml: targets.a.limit.per_key",
            'expected a table such as { rate = "1/s", concurrency = 1 }, got int',
        ),
        (
            '[gateway]\nplugins = ["a"]',
            "gateway.toml: gateway",
            'unknown key "plugins"; a top-level key stands above the first [section]; known: host, ',
        ),
        (
            '[schedules.s]\ncron = "@daily"\nplugins = ["a"]',
            "gateway.toml: schedules.s",
            "above the first [section]; known: payload, cron, timezone, target, lane, ",
        ),
        (
            '[triggers.g]\nverifier = "x"\n[[triggers.g.routes]]\ntarget = "a"\nplugins = ["a"]',
            "gateway.toml: triggers.g.routes[0]",
            'unknown key "plugins"; a top-level key stands above the first [section]; known: target, when',
        ),
    ],
)
def test_a_wrong_key_or_value_names_its_place_and_the_mend(tmp_path: Path, toml: str, place: str, detail: str) -> None:
    found_place, found_detail = fault(tmp_path, toml)
    assert found_place == place
    assert detail in found_detail


@pytest.mark.parametrize(
    ("variable", "text", "detail"),
    [
        ("GATEWAY_GATEWAY_SLOTS", "many", "expected int, got 'many'"),
        ("GATEWAY_GATEWAY_SLOTS", "20000", "expected int <= 10000"),
        ("GATEWAY_GATEWAY_LEASE", "2h", "must lie between 1s and 1h"),
        ("GATEWAY_EGRESS_ALLOW", "10.1.2.3/8", 'write "10.0.0.0/8"'),
        ("GATEWAY_LANES_ORDER", ",", "between 1 and 16"),
        ("GATEWAY_LANES_MAX_WAIT", "lo=1s", "no such lane"),
        ("GATEWAY_LANES_MAX_DEPTH", "low=5,lo=5", "no such lane"),
        ("PORT", "70000", "expected int <= 65535"),
        ("GATEWAY_GATEWAY_SLOT", "5", "unknown variable; did you mean GATEWAY_GATEWAY_SLOTS?"),
        ("GATEWAY_LEASE", "5", "unknown variable; did you mean GATEWAY_GATEWAY_LEASE?"),
        ("GATEWAY_PRT", "5", "unknown variable; did you mean PORT?"),
        ("GATEWAY_IMPORT", "shop", "unknown variable; did you mean GATEWAY_IMPORTS?"),
        ("GATEWAY_COLOUR", "red", "unknown variable; every key is GATEWAY_<SECTION>_<KEY>"),
        ("GATEWAY_TARGETS_A_TIMEOUT", "5", "set in gateway.toml or over the API"),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, variable: str, text: str, detail: str) -> None:
    place, found = fault(tmp_path, "[gateway]\nslots = 5", {variable: text})
    assert place == f"environment: {variable}"
    assert detail in found


def test_a_fault_of_the_file_is_not_blamed_on_another_variable(tmp_path: Path) -> None:
    place, _ = fault(tmp_path, '[gateway]\nlease = "2h"', {"GATEWAY_GATEWAY_SLOTS": "5"})
    assert place == "gateway.toml: gateway.lease"


@pytest.mark.parametrize(
    ("toml", "environ", "detail"),
    [
        ("", {"GATEWAY_LANES_ORDER": "a,b", "GATEWAY_LANES_POLICY": "weighted"}, "lanes.weights: no weight for"),
        (
            '[targets.a]\nexecutor = "http"\nlane = "low"',
            {"GATEWAY_LANES_ORDER": "critical,default"},
            'has no lane "low", which gateway.toml: targets.a.lane names; it has: critical, default',
        ),
        (
            '[lanes]\norder = ["a", "b"]\n[triggers.t]\nverifier = "github"\nroutes = [{ target = "x", lane = "b" }]',
            {"GATEWAY_LANES_ORDER": "a"},
            'has no lane "b", which gateway.toml: triggers.t.routes[0].lane names',
        ),
        (
            '[schedules.s]\ncron = "@daily"\ntarget = "x"\nlane = "low"',
            {"GATEWAY_LANES_ORDER": "default"},
            'has no lane "low", which gateway.toml: schedules.s.lane names',
        ),
        ('[lanes]\nmax_wait = { low = "1s" }', {"GATEWAY_LANES_ORDER": "a,b"}, "lanes.max_wait.low: no such lane"),
    ],
)
def test_what_is_wrong_only_by_variables_is_blamed_on_them(
    tmp_path: Path, toml: str, environ: dict[str, str], detail: str
) -> None:
    place, found = fault(tmp_path, toml, environ)
    assert place == f"environment: {', '.join(environ)}"
    assert found.startswith(detail)


def test_variables_that_kubernetes_sets_for_a_service_named_gateway_are_ignored(tmp_path: Path) -> None:
    settings = load(
        {
            "GATEWAY_SERVICE_HOST": "10.0.0.1",
            "GATEWAY_SERVICE_PORT": "80",
            "GATEWAY_SERVICE_PORT_HTTP": "80",
            "GATEWAY_PORT": "tcp://10.0.0.1:80",
            "GATEWAY_PORT_80_TCP": "tcp://10.0.0.1:80",
            "GATEWAY_PORT_80_TCP_ADDR": "10.0.0.1",
            "GATEWAY_GATEWAY_PORT": "tcp://10.0.0.1:80",
            "GATEWAY_REDIS_PORT": "tcp://10.0.0.2:6379",
        },
        tmp_path,
    )
    assert settings.gateway.port == 8080


def test_variables_that_our_own_processes_pass_on_are_ignored(tmp_path: Path) -> None:
    assert load({"GATEWAY_SUPERVISOR_PID": "1", "GATEWAY_JOB_ID": "x", "GATEWAY_JOB_KEY": ""}, tmp_path) is not None


def test_a_variable_that_a_secret_names_may_begin_with_our_prefix(tmp_path: Path) -> None:
    toml = '[triggers.g]\nverifier = "github"\nroutes = [{ target = "a" }]\nsecrets = [{ env = "GATEWAY_HUB_SECRET" }]'
    assert "g" in configure(tmp_path, toml, {"GATEWAY_HUB_SECRET": "x"}).triggers
    assert fault(tmp_path, "", {"GATEWAY_HUB_SECRET": "x"})[0] == "environment: GATEWAY_HUB_SECRET"


def test_secret_comes_from_a_literal_a_variable_or_a_file(tmp_path: Path) -> None:
    key = SigningKey.generate().reveal()
    (tmp_path / "key").write_text(f"{key}\n")
    for value, environ in [
        (f'"{key}"', {}),
        ('{ env = "THE_KEY" }', {"THE_KEY": key}),
        ('{ file = "key" }', {}),
        (f'{{ file = "{tmp_path}/key" }}', {}),
    ]:
        settings = configure(tmp_path, f"[gateway]\nsigning_key = {value}", environ)
        assert settings.gateway.signing_key == Secret(key), value


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ('{ env = "NOT_SET" }', "environment variable NOT_SET is not set"),
        ('{ env = "EMPTY" }', "environment variable EMPTY is not set"),
        ('{ env = "BLANK" }', "environment variable BLANK is empty"),
        ('{ file = "blank" }', "the secret's file blank is empty"),
        ('{ file = "missing" }', "/missing: No such file"),
        ('{ file = "empty" }', "the secret's file empty is empty"),
        ('{ file = "binary" }', "is not UTF-8"),
        ('{ file = "long" }', "longer than 65536 bytes"),
        ('{ env = "A", file = "b" }', "not a secret; write"),
        ('{ vault = "A" }', "not a secret; write"),
        ("5", "not a secret; write"),
        ('""', "the secret is empty"),
        ('"\\n"', "the secret is empty"),
        ('"hunter2"', "not an API key; write gwk_"),
    ],
)
def test_a_secret_that_cannot_be_had_is_named_and_never_shown(tmp_path: Path, value: str, detail: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "blank").write_text(" \n\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "long").write_text("x" * 65537)
    place, found = fault(tmp_path, f"[gateway]\napi_key = {value}", {"EMPTY": "", "BLANK": " "})
    assert place == "gateway.toml: gateway.api_key"
    assert detail in found
    assert "hunter2" not in found


def test_settings_never_show_a_secret(tmp_path: Path) -> None:
    toml = """
        [targets.a]
        executor = "http"
        secret = "hunter2"
        [triggers.g]
        verifier = "github"
        secrets = ["hunter2"]
        routes = [{ target = "a" }]
    """
    settings = configure(tmp_path, toml, {"GATEWAY_API_KEY": API_KEY, "OTHER": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert API_KEY not in repr(settings)


class Inner(msgspec.Struct, frozen=True):
    wait: Duration = Duration(1)
    token: Secret | None = None


class Outer(msgspec.Struct, frozen=True):
    inner: Inner = Inner()
    tokens: tuple[Secret, ...] = ()


def test_decode_places_a_fault_of_a_request_body_by_its_path_alone() -> None:
    with pytest.raises(ConfigError) as caught:
        decode({"inner": {"wait": "x"}}, Outer, "")
    assert caught.value.place == "inner.wait"


def test_decode_without_a_source_takes_no_secret_from_this_machine() -> None:
    assert decode({"tokens": ["plain"]}, Outer, "").tokens == (Secret("plain"),)
    for value in ({"env": "PATH"}, {"file": "/etc/hostname"}):
        with pytest.raises(ConfigError, match="only the configuration file may name a variable or file"):
            decode({"tokens": [value]}, Outer, "")


def test_decode_refuses_an_unknown_key_even_of_a_struct_that_would_let_it_pass() -> None:
    with pytest.raises(ConfigError, match=r'unknown key "inne"; did you mean "inner"\? known: executor, inner, tokens'):
        decode({"inne": {}}, Outer, "body", beside=("executor",))


def test_read_target_serves_a_registration_over_the_api() -> None:
    target = read_target("mail", {"executor": "http", "url": "https://mail.example"}, "")
    assert (target.executor, target.config) == ("http", {"url": "https://mail.example"})
    with pytest.raises(ConfigError) as caught:
        read_target("mail", {"executor": "http", "retry": {"base": "x"}}, "")
    assert caught.value.place == "retry.base"


def test_secret_source_does_not_show_the_environment() -> None:
    assert "hunter2" not in repr(SecretSource({"PASSWORD": "hunter2"}))


def documented_rows() -> dict[str, tuple[str, str]]:
    """Key and default (TOML) of every row of the page's tables of sections, by variable."""
    row = re.compile(r"^\| `(\w+)` \| `(GATEWAY_\w+)` \| (?:`(.+?)`|–) \|", re.MULTILINE)
    return {variable: (key, default) for key, variable, default in row.findall(DOCS.read_text())}


def test_documentation_has_every_key_with_its_variable_and_default(tmp_path: Path) -> None:
    rows = documented_rows()
    settings = load({}, tmp_path)
    expected = {
        full_name(section, key): (section, key) for section in SECTIONS for key in field_names(SECTIONS[section])
    }
    assert rows.keys() == expected.keys()
    for variable, (section, key) in expected.items():
        documented_key, default = rows[variable]
        assert documented_key == key
        shown = configure(tmp_path, f"[{section}]\n{key} = {default}" if default else "")
        assert getattr(getattr(shown, section), key) == getattr(getattr(settings, section), key), variable


def test_documentation_names_every_other_variable() -> None:
    text = DOCS.read_text()
    for variable in (CONFIG, PLUGINS, REDIS_URL, "REDIS_URL", *SHORT_NAMES):
        assert f"| `{variable}` |" in text


def test_documented_examples_load(tmp_path: Path) -> None:
    blocks = [block.partition("```")[0] for block in DOCS.read_text().split("```toml\n")[1:]]
    assert blocks, "the page shows no configuration"
    for block in blocks:
        configure(tmp_path, block, {"INVOICE_SECRET": "x", "GITHUB_SECRET": "x"})


def test_every_top_level_key_has_the_hint(tmp_path: Path) -> None:
    detail = fault(tmp_path, "nothing = 1")[1]
    assert detail.partition("known: ")[2].split(", ") == list(TOP_LEVEL)


def test_a_request_is_told_of_no_section() -> None:
    with pytest.raises(ConfigError) as caught:
        decode({"plugins": []}, RetryPolicy, "")
    assert "section" not in str(caught.value)
