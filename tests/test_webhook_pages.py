"""`docs/webhooks/`: a page for each provider; its configuration loads, its trigger takes what is signed for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway import WebhookRequest
from gateway.registry import Registry
from gateway.settings import load
from tests.documents import DOCS_WEBHOOKS, ROOT, files_of, secrets_in
from tests.plugins.presets import VERIFIERS

PAGES = sorted(DOCS_WEBHOOKS.glob("*.md"))
BODY = b'{"type":"test","webhookTimestamp":1}'


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_configuration_of_a_page_loads_and_takes_a_delivery_that_is_signed_for_it(page: Path, tmp_path: Path) -> None:
    text = files_of(page)["gateway.toml"]
    (tmp_path / "gateway.toml").write_text(text)
    trigger = Registry.build(load(secrets_in(text), tmp_path)).triggers[page.stem]
    url, now = f"https://hooks.example/hooks/{page.stem}", time.time()
    signed = trigger.verifier.sign(WebhookRequest("POST", url, (), BODY), now)
    if signed is None:
        assert trigger.verifier.name in ("discord", "sendgrid")
        return
    assert trigger.verifier.verify(signed, now).answer is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_says_what_to_paste_what_is_verified_and_what_a_repeat_is(page: Path) -> None:
    text = page.read_text()
    for part in ("**Paste.**", "**Verified.**", "**A repeat.**", f"`gateway hook-url {page.stem}`"):
        assert part in text
    assert f"](webhooks/{page.name})" in (ROOT / "docs" / "webhooks.md").read_text()


def test_every_verifier_has_a_page_or_a_section() -> None:
    text = "".join(page.read_text() for page in PAGES) + (ROOT / "docs" / "webhooks.md").read_text()
    assert [name for name in VERIFIERS if f"`{name}`" not in text and f'"{name}"' not in text] == []
