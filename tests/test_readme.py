"""The README: its commands are there, its files work together, and its first ten minutes go as it says."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gateway.cli import app
from tests.documents import README, ROOT, Block, Installed, blocks, commands, files_of, free_port, installed

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
CURL = [text for text in commands(README) if "curl" in text]
WITHOUT_CURL = [text for text in commands(README) if "curl" not in text]
TRIGGERS = re.findall(r"`(gateway triggers [^`\n]+)`", README.read_text())
SECRETS = re.findall(r"`([^`\n]+ > \w+\.secret)`", README.read_text())

needs_tools = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("bash", "curl", "openssl")), reason="the README's shell has these"
)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ten")


@needs_tools
def test_first_ten_minutes_go_as_the_readme_says(folder: Path) -> None:
    """Every example that calls something, in the order of the page."""
    submit, look, deliver, tell = CURL
    port = free_port()
    files = files_of(README)
    files["receiver.py"] = files["receiver.py"].replace("9000", str(port))
    make_secrets(folder)
    with installed(folder, files) as here, receiving(here) as told:
        record = here.ended(job_id(here.shell(submit)))
        assert (record["status"], record["attempts"], record["result"]["width"]) == ("succeeded", 2, 200)

        dead = here.submit("resize", {})
        assert (dead["status"], dead["reason"], dead["error"]["type"]) == ("dead", "exhausted", "KeyError")
        looked = here.shell(look.replace("the-job_id-of-an-answer", dead["job_id"]))
        assert looked.count(dead["job_id"]) == 4
        assert '"type":"retrying"' in looked
        assert here.ended(dead["job_id"])["status"] == "dead"

        answer = json.loads(here.shell(deliver))
        record = here.ended(answer["jobs"][0]["job_id"])
        assert record["result"] == "deployed 4f2a of octo/shop"
        test, deliveries = TRIGGERS
        signed = json.loads(here.shell(f"{test} --to http://127.0.0.1:8080"))
        assert here.ended(signed["jobs"][0]["job_id"])["result"] == "deployed 4f2a of octo/shop"
        assert here.shell(deliveries).count("accepted") == 2

        done = here.ended(job_id(here.shell(tell.replace("9000", str(port)))))
        assert done["result"] == "Good evening, Ada!"
        assert f"'job_id': '{done['job_id']}'" in told()

        close_to_strangers(here, deliver)


def make_secrets(folder: Path) -> None:
    """The files that the page's sentences make, by its own commands."""
    for command in SECRETS:
        subprocess.run(["bash", "-eu", "-c", command], cwd=folder, check=True, timeout=20)
    assert [len((folder / name).read_text()) for name in ("github.secret", "callback.secret")] == [41, 51]


def close_to_strangers(here: Installed, deliver: str) -> None:
    """With an API key made, the API asks for it, and deliveries are let in by their signature still."""
    key = here.shell(next(text for text in WITHOUT_CURL if "apikeys" in text).splitlines()[0]).strip()
    until_s = time.monotonic() + 10
    while here.api.get("/jobs").status_code != 401:
        assert time.monotonic() < until_s, "the API is still open to everyone"
        time.sleep(0.1)
    assert here.api.get("/jobs", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert json.loads(here.shell(deliver))["duplicate"] is True


@contextlib.contextmanager
def receiving(here: Installed) -> Iterator[Told]:
    """The README's receiver, running."""
    with subprocess.Popen(
        [sys.executable, "receiver.py"],
        cwd=here.folder,
        env=here.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield Told(process)
        finally:
            process.kill()


class Told:
    """Waits for the next line that the receiver prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def job_id(text: str) -> str:
    found: str = json.loads(text)["job_id"]
    return found


def test_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 205


def test_every_shell_example_is_run_or_looked_into() -> None:
    assert len(CURL) == 4
    assert [text.partition("\n")[0] for text in WITHOUT_CURL] == [
        "python3 -m venv .venv && .venv/bin/pip install -q -e . && .venv/bin/gateway demo",
        "python3 -m venv --upgrade-deps .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/pytest -q -n 3",
        "gateway apikeys create laptop",
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = " ".join(project["optional-dependencies"]["dev"])
    assert all(tool in extra for tool in ("pytest>", "pytest-xdist>"))
    assert project["scripts"]["gateway"] == "gateway.__main__:main"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_is_of_its_language(page: Path) -> None:
    for block in blocks(page):
        check(block)
    text = page.read_text()
    assert text.count("\n```") % 2 == 0


def check(block: Block) -> None:
    if block.language == "python":
        compile(block.text, block.title or "example", "exec")
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "sh" and (bash := shutil.which("bash")):
        subprocess.run([bash, "-n", "-c", block.text], check=True, timeout=20)
    elif block.language == "dockerfile":
        hadolint = Path(sys.executable).with_name("hadolint")
        subprocess.run([str(hadolint), "-"], input=block.text, text=True, check=True, timeout=60)
    elif block.language == "yaml":
        assert isinstance(yaml.safe_load(block.text), dict)
    else:
        assert block.language in ("sh", "text", "mermaid"), f"an example in {block.language}, which nothing looks into"


def test_first_page_links_every_other() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text()))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md", "reference-python.md"} <= linked


def test_no_example_installs_from_an_index_that_has_no_release() -> None:
    shown = [(page.name, line) for page in PAGES for block in blocks(page) for line in block.text.splitlines()]
    assert [each for each in shown if re.search(r"\bpip (install|download)\b.* event-gateway\b", each[1])] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_into_the_repository_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert "://" in link or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", [*PAGES, ROOT / "Procfile"], ids=lambda page: page.name)
def test_every_command_of_ours_is_one(page: Path) -> None:
    text = page.read_text()
    examples = re.findall(r"^(?:[a-z]+: |\S*/)?gateway ([a-z][^#\n`]*)", text, re.MULTILINE)
    for arguments in [*re.findall(r"`gateway ([^`…<]+)`", text), *examples]:
        assert refusal_of(arguments) == "", f"gateway {arguments}"


@cache
def refusal_of(arguments: str) -> str:
    """What a command says that there is not; many pages name the same."""
    done = CliRunner().invoke(app, [*arguments.partition(" | ")[0].split(), "--help"])
    return "" if done.exit_code == 0 else done.output or "it fails"
