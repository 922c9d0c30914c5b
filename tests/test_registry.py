"""Which plugins load, what the configuration makes of them, and what a wrong one says."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from gateway import schemes
from gateway.backoff import CALLBACK_RETRY
from gateway.durations import Duration, parse_duration
from gateway.errors import ConfigError, NotFound, PluginError
from gateway.events import JobEvent
from gateway.executor import Job
from gateway.jobs import CALLBACK_TARGET
from gateway.registry import Registry
from gateway.registry.builtins import BUILT_IN, import_builtin
from gateway.secret import Secret
from gateway.settings import Settings, field_names, load, read_target

ROOT = Path(__file__).parent.parent
BUILT_IN_COUNT = sum(map(len, BUILT_IN.values()))
SHARED = "preset"
"""In the documentation's table: the keys that presets share."""

DOCS = ROOT / "docs" / "configuration.md"
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
JOB = Job("id", "t", "default", "", 5, 0, (), "")
EVENT = JobEvent("succeeded", "id", "t", "default", 0)

PLUGIN = """
import msgspec
from gateway import Executor, Result, Verifier, hookimpl

class Config(msgspec.Struct):
    to: str = ""

class Mail(Executor):
    name = "mail"
    Config = Config
    async def execute(self, attempt):
        return Result()

class Check(Verifier):
    name = "plain"
    Config = Config
    def verify(self, request, now):
        raise NotImplementedError
"""
OFFER = """
@hookimpl
def register_executors():
    return [Mail()]
"""


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    """Each test has modules of the same names in a folder of its own."""
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        if name.startswith("plug"):
            del sys.modules[name]


def build(directory: Path, *, toml: str = "", environ: Mapping[str, str] | None = None, **modules: str) -> Registry:
    """A registry over plugin modules written into `directory`."""
    for name, code in modules.items():
        (directory / f"{name}.py").write_text(PLUGIN + code)
    (directory / "gateway.toml").write_text(f"plugins = {list(modules)}\n{toml}")
    return Registry.build(load(environ or {}, directory))


def fault(directory: Path, **given: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        build(directory, **given)
    return caught.value


def install(directory: Path, name: str, value: str, *, version: str = "1.2") -> None:
    """A distribution with one entry point, as an installer would leave it."""
    info = directory / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[gateway]\n{name} = {value}\n")


def test_built_in_plugins_load_and_tell_what_they_bring(tmp_path: Path) -> None:
    registry = build(tmp_path)
    assert [plugin.name for plugin in registry.plugins] == [
        f"{part}.{name}" for part, names in BUILT_IN.items() for name in names
    ]
    assert {plugin.source for plugin in registry.plugins} == {"built-in"}
    assert set(registry.executors) == {"python", "http", "command"}
    assert {"github", "standard", "hmac", "stripe", "none"} < set(registry.verifiers)
    assert not registry.listeners.listening


def test_plugin_of_the_working_directory_loads(tmp_path: Path) -> None:
    plugin = build(tmp_path, plug_mail=OFFER).plugins[-1]
    assert (plugin.name, plugin.source, plugin.executors) == ("plug_mail", "configuration", ("mail",))
    assert plugin.hooks == ("register_executors",)


def test_plugin_with_an_entry_point_loads_once_and_has_a_version(tmp_path: Path) -> None:
    install(tmp_path, "plugshop", "plug_mail")
    registry = build(tmp_path, plug_mail=OFFER)
    named = [(plugin.name, plugin.source, plugin.version) for plugin in registry.plugins[BUILT_IN_COUNT:]]
    assert named == [("plugshop", "entry point", "1.2")]


def test_gateway_plugins_restricts_what_loads_beside_the_built_in_ones(tmp_path: Path) -> None:
    install(tmp_path, "plugshop", "plug_shop")
    (tmp_path / "plug_shop.py").write_text("raise SystemExit('must not be imported')")
    registry = build(tmp_path, plug_mail=OFFER, environ={"GATEWAY_PLUGINS": "plug_mail"})
    assert [plugin.name for plugin in registry.plugins[BUILT_IN_COUNT:]] == ["plug_mail"]
    assert len(build(tmp_path, plug_mail=OFFER, environ={"GATEWAY_PLUGINS": ","}).plugins) == BUILT_IN_COUNT


def test_gateway_plugins_that_names_no_plugin_is_an_error(tmp_path: Path) -> None:
    error = fault(tmp_path, plug_mail=OFFER, environ={"GATEWAY_PLUGINS": "plug_male"})
    assert error.place == "environment: GATEWAY_PLUGINS"
    assert 'did you mean "plug_mail"?' in error.detail


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("import nothing_of_this_name", "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("def f(:", "cannot be imported: SyntaxError"),
        ("", "implements no hook; mark one with @hookimpl"),
        (
            "@hookimpl\ndef regster_executors(settings): ...",
            'there is no hook "regster_executors"; did you mean "register_executors"?',
        ),
        ("@hookimpl\ndef job_event(event, extra): ...", "cannot be registered: "),
        ("@hookimpl\nasync def job_event(event): ...", "job_event is an async function"),
        ("@hookimpl(wrapper=True)\ndef job_event(event):\n    yield", "job_event is a wrapper"),
        (
            "@hookimpl\ndef register_executors(): return None",
            "register_executors returned NoneType; it must return a list",
        ),
        ("@hookimpl\ndef register_executors(): return 1 / 0", "register_executors failed: ZeroDivisionError"),
        ("@hookimpl\ndef register_executors(): return [Mail]", "offers the class Mail as an executor"),
        ("@hookimpl\ndef register_executors(): return [3]", "offers 3 as an executor"),
        (
            "def execute(self, attempt): return Result()\nMail.execute = execute\n" + OFFER,
            "Mail.execute is not async; make it `async def execute`",
        ),
        (
            "def execute(self, attempt) -> Result: return Result()\nMail.execute = execute\n" + OFFER,
            "Mail.execute is not async",
        ),
        (
            "async def execute(self, attempt, printer): return Result()\nMail.execute = execute\n" + OFFER,
            "Mail.execute cannot be called as it will be (missing a required argument: 'printer'); "
            "make it `async def execute(self, attempt)`",
        ),
        ("Mail.execute = staticmethod(Mail.execute)\n" + OFFER, "Mail.execute cannot be called as it will be ("),
        (
            "class Quick(Mail):\n    def start(self): ...\n" + OFFER.replace("Mail()", "Quick()"),
            "Quick.start is not async; make it `async def start`",
        ),
        (
            "class Quick(Mail):\n    def aclose(self): ...\n" + OFFER.replace("Mail()", "Quick()"),
            "Quick.aclose is not async; make it `async def aclose`",
        ),
        (
            "class Quick(Mail):\n    async def check(self, config): ...\n" + OFFER.replace("Mail()", "Quick()"),
            "Quick.check is async; make it `def check`",
        ),
        (
            "class Quick(Check):\n    def verify(self, request): ...\n"
            "@hookimpl\ndef register_verifiers(): return [Quick]",
            "Quick.verify cannot be called as it will be (too many positional arguments); "
            "make it `def verify(self, request, now)`",
        ),
        (
            "class Quick(Check):\n    def sign(self, request, now): ...\n"
            "@hookimpl\ndef register_verifiers(): return [Quick]",
            "make it `def sign(self, request, now, *, event)`",
        ),
        ("Mail.name = 'a b'\n" + OFFER, "Mail.name is 'a b'"),
        ("del Mail.name\n" + OFFER, "Mail.name is None"),
        ("Mail.Config = dict\n" + OFFER, "Mail.Config is <class 'dict'>; it must be a subclass of msgspec.Struct"),
        ("Mail.name = 'http'\n" + OFFER, 'offers the executor "http", which plugin executors.http offers already'),
        (
            "Mail.Config = msgspec.defstruct('C', [('timeout', float)])\n" + OFFER,
            'Mail.Config has the field "timeout", which is taken',
        ),
        (
            "Mail.Config = msgspec.defstruct('C', [('a', 'Missing')])\n" + OFFER,
            "Mail.Config cannot be read from a table: ",
        ),
        ("@hookimpl\ndef register_verifiers(): return [Check(Config())]", "it must be a class that derives from"),
        ("@hookimpl\ndef register_verifiers(): return [Verifier]", "it must be a class that derives from"),
        (
            "@hookimpl\ndef register_verifiers(): return [Check, Check]",
            'offers the verifier "plain", which plugin plug',
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(tmp_path: Path, code: str, detail: str) -> None:
    error = fault(tmp_path, plug_bad=code)
    assert isinstance(error, PluginError)
    assert error.place == "plugin plug_bad"
    assert detail in error.detail


@pytest.mark.parametrize(
    "execute",
    [
        "def execute(self, attempt) -> 'Awaitable[Result]': return run(self, attempt)\nMail.execute = execute",
        "def traced(self, attempt): return run(self, attempt)\nMail.execute = traced",
        "Mail.execute = functools.wraps(Mail.execute)(lambda self, attempt: run(self, attempt))",
        "Mail.execute = functools.partialmethod(run)",
    ],
)
def test_an_executor_whose_execute_gives_something_to_await_is_taken(tmp_path: Path, execute: str) -> None:
    registry = build(tmp_path, plug_mail=f"import functools\nrun = Mail.execute\n{execute}\n{OFFER}")
    assert [plugin.executors for plugin in registry.plugins[BUILT_IN_COUNT:]] == [("mail",)]


def test_an_entry_point_that_two_distributions_offer_is_an_error(tmp_path: Path) -> None:
    install(tmp_path, "plugshop", "plug_one")
    (tmp_path / "other").mkdir()
    install(tmp_path / "other", "plugshop", "plug_two")
    shutil.move(tmp_path / "other" / "plugshop-1.2.dist-info", tmp_path / "plugother-1.dist-info")
    (tmp_path / "plugother-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: plugother\nVersion: 1\n")
    error = fault(tmp_path)
    assert error.place == "plugin plugshop"
    assert "plug_one" in error.detail
    assert "plug_two" in error.detail


def test_targets_resolve_to_their_executor_and_its_config(tmp_path: Path) -> None:
    toml = """
        [targets.letter]
        executor = "mail"
        to = "a@example.com"
        lane = "low"
        timeout = "5s"
        retry = { max_attempts = 2 }
        [targets.invoice]
        executor = "http"
        url = "https://billing.example/invoice"
        secret = { env = "INVOICE_SECRET" }
    """
    registry = build(tmp_path, plug_mail=OFFER, toml=toml, environ={"INVOICE_SECRET": WHSEC})
    letter = registry.target("letter")
    assert (letter.executor.name, letter.config.to, letter.lane, letter.timeout_s) == (
        "mail",
        "a@example.com",
        "low",
        5,
    )
    assert letter.retry.max_attempts == 2
    invoice = registry.submittable("invoice")
    assert invoice.config.secret == Secret(WHSEC)
    assert (invoice.lane, invoice.timeout_s) == (None, 60.0)
    assert list(registry.targets) == ["letter", "invoice"]


@pytest.mark.parametrize(
    ("table", "place", "detail"),
    [
        ('executor = "htp"', ".executor", 'no executor named "htp"; did you mean "http"? known: command, http, python'),
        ('executor = "http"', "", 'missing key "url"'),
        ('executor = "http"\nurl = 5', ".url", "expected str, got int"),
        ('executor = "http"\nurl = "gopher://x"', ".url", "http:// or https://"),
        (
            'executor = "http"\nurl = "https://x"\ntiemout = 5',
            "",
            'unknown key "tiemout"; did you mean "timeout"? known',
        ),
        ('executor = "http"\nurl = "https://x"\nlimit = { rate = "fast" }', ".limit.rate", "not a rate; write"),
        ('executor = "http"\nurl = "https://x"\nlane = "lo"', ".lane", 'no lane named "lo"; did you mean "low"?'),
        ('executor = "http"\nurl = "https://x"\nsecret = { env = "NO" }', ".secret", "environment variable NO is not"),
        ('executor = "http"\nurl = "https://x"\nsecret = "hunter2!"', ".secret", "Standard Webhooks secret"),
        ('executor = "command"\nargv = []', "", "argv is empty"),
        ('executor = "command"\nargv = ["a"]\ngrace = "x"', ".grace", "not a duration"),
    ],
)
def test_a_wrong_target_names_its_place(tmp_path: Path, table: str, place: str, detail: str) -> None:
    error = fault(tmp_path, toml=f"[targets.a]\n{table}")
    assert error.place == f"gateway.toml: targets.a{place}"
    assert detail in error.detail
    assert "hunter2" not in error.detail


def test_an_unknown_target_lists_those_that_there_are(tmp_path: Path) -> None:
    toml = "".join(f'[targets.{name}]\nexecutor = "python"\ncallable = "a:b"\n' for name in ("resize", "invoice"))
    registry = build(tmp_path, toml=toml)
    with pytest.raises(NotFound, match=r"^no target named 'resise'; known: resize, invoice$"):
        registry.target("resise")


def test_the_callback_target_runs_but_takes_no_submitted_job(tmp_path: Path) -> None:
    registry = build(tmp_path)
    callback = registry.target(CALLBACK_TARGET)
    assert (callback.executor.name, callback.retry) == ("http", CALLBACK_RETRY)
    assert CALLBACK_TARGET not in registry.targets
    with pytest.raises(NotFound, match=r"no target named 'gateway.callback'; known: none"):
        registry.submittable(CALLBACK_TARGET)


def test_callback_config_is_the_http_executors_own(tmp_path: Path) -> None:
    registry = build(tmp_path)
    config = registry.callback_config("https://client.example/done", Secret(WHSEC))
    assert (config.url, config.secret) == ("https://client.example/done", Secret(WHSEC))
    assert type(config) is registry.executors["http"].Config
    assert registry.callback_config("https://client.example/done").secret is None
    with pytest.raises(ConfigError) as caught:
        registry.callback_config("ftp://client.example")
    assert caught.value.place == "callback.url"


def test_make_target_of_a_request_places_faults_by_path_and_reads_no_file(tmp_path: Path) -> None:
    registry = build(tmp_path)
    table = {"executor": "http", "url": "https://x.example", "secret": {"file": "/etc/hostname"}}
    with pytest.raises(ConfigError, match="only the configuration file may name") as caught:
        registry.make_target("new", read_target("new", table, ""))
    assert caught.value.place == "secret"


TRIGGER = """
[targets.deploy]
executor = "python"
callable = "a:b"
[triggers.hub]
verifier = "github"
secrets = [{ env = "GITHUB_SECRET" }]
"""


def test_triggers_resolve_to_their_verifier_and_routes(tmp_path: Path) -> None:
    toml = TRIGGER + "routes = [{ target = 'deploy', when = 'body.ref', lane = 'low' }, { target = 'deploy' }]"
    trigger = build(tmp_path, toml=toml, environ={"GITHUB_SECRET": "s"}).triggers["hub"]
    assert (trigger.name, trigger.verifier.name) == ("hub", "github")
    assert [route.lane for route in trigger.routes] == ["low", None]
    assert trigger.verifier.config.secrets == (Secret("s"),)


@pytest.mark.parametrize(
    ("toml", "place", "detail"),
    [
        (TRIGGER + "routes = [{ target = 'deplyo' }]", ".routes[0].target", 'named "deplyo"; did you mean "deploy"?'),
        (TRIGGER + "routes = [{ target = 'deploy', lane = 'x' }]", ".routes[0].lane", 'no lane named "x"; known: crit'),
        (TRIGGER + "routes = [{ target = 'deploy', when = 'a ||' }]", ".routes[0].when", ""),
        (TRIGGER + "routes = [{ target = 'deploy' }]\nallow_sha = 1", "", 'did you mean "allow_sha1"? known: verifier'),
        (
            TRIGGER.replace("github", "gitub") + "routes = [{ target = 'deploy' }]",
            ".verifier",
            'did you mean "github"?',
        ),
        (re.sub("secrets.*", "secrets = []", TRIGGER) + "routes = [{ target = 'deploy' }]", "", "at least one secret"),
        (re.sub("secrets.*", "", TRIGGER) + "routes = [{ target = 'deploy' }]", "", 'missing key "secrets"'),
        (TRIGGER.replace("GITHUB", "NO") + "routes = [{ target = 'deploy' }]", ".secrets[0]", "NO_SECRET is not set"),
    ],
)
def test_a_wrong_trigger_names_its_place(tmp_path: Path, toml: str, place: str, detail: str) -> None:
    error = fault(tmp_path, toml=toml, environ={"GITHUB_SECRET": "s"})
    assert error.place == f"gateway.toml: triggers.hub{place}"
    assert detail in error.detail


def test_check_tells_every_target_that_cannot_run_here(tmp_path: Path) -> None:
    toml = "".join(f'[targets.{name}]\nexecutor = "python"\ncallable = "plug_no:{name}"\n' for name in ("a", "b"))
    faults = build(tmp_path, toml=toml).check()
    assert [error.place for error in faults] == ["gateway.toml: targets.a", "gateway.toml: targets.b"]


async def test_start_refuses_a_target_that_cannot_run_and_starts_nothing(tmp_path: Path) -> None:
    code = OFFER + "Mail.started = False\nasync def start(self): Mail.started = True\nMail.start = start"
    toml = '[targets.a]\nexecutor = "python"\ncallable = "plug_no:f"'
    registry = build(tmp_path, plug_mail=code, toml=toml)
    with pytest.raises(ConfigError, match=r"gateway.toml: targets.a: "):
        await registry.start()
    assert vars(type(registry.executors["mail"]))["started"] is False


CALLS = """
calls = []
class First(Mail):
    name = "first"
    async def start(self): calls.append("start first")
    async def aclose(self): calls.append("close first")
class Second(Mail):
    name = "second"
    async def start(self): calls.append("start second"); await begin()
    async def aclose(self): calls.append("close second"); raise OSError("gone")
@hookimpl
def register_executors(): return [First(), Second()]
async def begin(): pass
"""


async def test_start_and_aclose_reach_every_executor_even_past_a_failing_one(tmp_path: Path) -> None:
    registry = build(tmp_path, plug_two=CALLS)
    calls = sys.modules["plug_two"].calls
    await registry.start()
    with capture_logs() as logs:
        await registry.aclose()
        await registry.aclose()
    assert calls == ["start first", "start second", "close second", "close first"]
    assert [entry["executor"] for entry in logs] == ["second"]


@pytest.mark.parametrize("error", ["OSError", "SystemExit"])
async def test_start_that_fails_closes_what_had_started(tmp_path: Path, error: str) -> None:
    registry = build(tmp_path, plug_two=CALLS + f"async def begin(): raise {error}('no display')")
    with pytest.raises(PluginError, match=f"executor second: did not start: {error}: no display"):
        await registry.start()
    assert sys.modules["plug_two"].calls == ["start first", "start second", "close first"]


async def test_start_that_is_cancelled_closes_what_had_started(tmp_path: Path) -> None:
    code = (
        CALLS + "import asyncio\nreached = asyncio.Event()\nasync def begin(): reached.set(); await asyncio.sleep(60)"
    )
    registry = build(tmp_path, plug_two=code)
    starting = asyncio.create_task(registry.start())
    await asyncio.wait_for(sys.modules["plug_two"].reached.wait(), 5)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert sys.modules["plug_two"].calls == ["start first", "start second", "close first"]


HEARS = "heard = []\n@hookimpl\ndef job_event(event): heard.append(event)\n"


def test_a_failing_listener_is_logged_by_name_and_silences_no_other(tmp_path: Path) -> None:
    fails = "@hookimpl\ndef job_event(): raise ValueError('full disk')"
    registry = build(tmp_path, plug_a=HEARS, plug_b=fails, plug_c=HEARS)
    assert registry.listeners.listening
    with capture_logs() as logs:
        for _ in range(5):
            registry.listeners.emit(EVENT)
    assert sys.modules["plug_a"].heard == sys.modules["plug_c"].heard == [EVENT] * 5
    assert registry.listeners.failures == {"plug_b": 5}
    assert [(entry["plugin"], entry["hook"], entry["failures"]) for entry in logs] == [
        ("plug_b", "job_event", 1),
        ("plug_b", "job_event", 2),
        ("plug_b", "job_event", 4),
    ]


@pytest.mark.parametrize("error", ["KeyError('x')", "SystemExit(3)", "GeneratorExit", "KeyboardInterrupt"])
def test_retry_delay_is_the_first_answer_and_a_failing_plugin_gives_none(tmp_path: Path, error: str) -> None:
    last = "@hookimpl(trylast=True)\ndef retry_delay(job, failure): return 7"
    unsure = "@hookimpl\ndef retry_delay(failure): return None"
    fails = f"@hookimpl(tryfirst=True)\ndef retry_delay(): raise {error}"
    registry = build(tmp_path, plug_a=last, plug_b=unsure, plug_c=fails)
    with capture_logs() as logs:
        assert registry.listeners.retry_delay(JOB, OSError("x")) == 7.0
    assert [entry["plugin"] for entry in logs] == ["plug_c"]
    assert build(tmp_path, plug_b=unsure).listeners.retry_delay(JOB, OSError("x")) is None


@pytest.mark.parametrize("answer", ["-1", "float('nan')", "float('inf')", "True", "'5s'", "wait()", "10**400"])
def test_retry_delay_that_is_no_delay_is_refused(tmp_path: Path, answer: str) -> None:
    code = f"async def wait(): return 5\n@hookimpl\ndef retry_delay(job): return {answer}"
    registry = build(tmp_path, plug_a=code)
    with capture_logs() as logs:
        assert registry.listeners.retry_delay(JOB, OSError("x")) is None
    assert logs[0]["plugin"] == "plug_a"


PROBE = """
import pathlib
from gateway.settings import load
from gateway.registry import Registry
registry = Registry.build(load({}, pathlib.Path.cwd()))
print(sorted({str(pathlib.Path(__import__("sys").modules[type(e).__module__].__file__).resolve())
              for e in registry.executors.values()}))
import executors, plugins
print(executors.WHOSE, plugins.WHOSE)
"""


def decoys(directory: Path) -> None:
    for part in BUILT_IN:
        (directory / part).mkdir(parents=True)
        (directory / part / "__init__.py").write_text("WHOSE = 'the user'\n")
        (directory / part / "http.py").write_text("raise SystemExit('a decoy was imported')\n")


def probe(directory: Path, *path: Path) -> str:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=directory,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_checkout_run_from_a_folder_with_decoys_loads_its_own(tmp_path: Path) -> None:
    decoys(tmp_path)
    shown = probe(tmp_path, ROOT)
    assert f"{ROOT}/executors/http/executor.py" in shown
    assert str(tmp_path) not in shown
    assert "the user the user" in shown


def test_a_wheels_layout_run_from_a_folder_with_decoys_loads_its_own(tmp_path: Path) -> None:
    site, work = tmp_path / "site", tmp_path / "work"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gateway", site / "gateway", ignore=ignore)
    for part in BUILT_IN:
        shutil.copytree(ROOT / part, site / "gateway" / part, ignore=ignore)
    decoys(work)
    shown = probe(work, site)
    assert f"{site}/gateway/executors/http/executor.py" in shown
    assert str(work) not in shown
    assert "the user the user" in shown


def test_an_inner_name_that_leads_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, decoy = tmp_path / "site", tmp_path / "decoy"
    for folder in (site, decoy):
        package = folder / "pluggate"
        (package / "executors").mkdir(parents=True)
        (package / "executors" / "__init__.py").write_text("")
        (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(decoy))
    with pytest.raises(PluginError, match=r"pluggate.executors does not lead to"):
        import_builtin("executors", "http", home=site / "pluggate")


def test_documentation_has_every_key_of_the_built_in_executors_and_verifiers() -> None:
    registry = Registry.build(Settings())
    row = re.compile(r"^\| `([\w-]+)` \| `(?!GATEWAY_)(\w+)` \| (?:`(.+?)`|–|required) \|", re.MULTILINE)
    rows = {(owner, key): default for owner, key, default in row.findall(DOCS.read_text())}
    offers: dict[str, Any] = {
        **registry.executors,
        **{_owner(name): offer for name, offer in registry.verifiers.items()},
    }
    fields = {
        (SHARED if field.encode_name in _shared(offer.Config) else name, field.encode_name): field
        for name, offer in offers.items()
        for field in msgspec.structs.fields(offer.Config)
    }
    assert rows.keys() == fields.keys()
    for at, field in fields.items():
        if rows[at]:
            assert default_of(field) == documented_value(rows[at], field), at
        else:
            assert default_of(field) in (None, msgspec.NODEFAULT), at


def _owner(verifier: str) -> str:
    """Whose rows a verifier's keys stand in, where two have the same."""
    return {"svix": "standard", "public-key": "hmac"}.get(verifier, verifier)


def _shared(config: type[msgspec.Struct]) -> set[str]:
    """The keys of a configuration that it has in common with other presets."""
    kinds = (schemes.TimedUrlConfig, schemes.UrlConfig, schemes.TimedConfig, schemes.LabelConfig, schemes.SecretsConfig)
    return {name for kind in kinds if issubclass(config, kind) for name in field_names(kind)}


def default_of(field: Any) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def documented_value(text: str, field: Any) -> Any:
    value = tomllib.loads(f"value = {text}")["value"]
    if field.type is Duration:
        return parse_duration(value)
    return tuple(value) if isinstance(value, list) else value
