"""`gateway triggers` and `gateway hook-url`: which there are, what to paste where, a delivery to oneself."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from gateway.cli.environment import load_settings, with_store
from gateway.errors import ConfigError, NotFound, StoreUnavailable
from gateway.registry import Registry
from gateway.schemes import looks_like_form
from gateway.settings import Settings, read_trigger
from gateway.store.triggers import StoredTrigger, find_trigger, list_triggers
from gateway.triggers import Trigger
from gateway.verifier import WebhookRequest

SEND_S = 65.0
"""Longer than an answer with a job's result may take."""

LOCAL_URL = "http://localhost"
"""What a gateway without `public_url` takes for its own URL."""

app = typer.Typer(help="Lists triggers, and sends one a delivery.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """Lists the triggers of the file and those that were registered over the API."""
    settings = load_settings()
    rows = {name: (each.verifier, "file", len(each.routes)) for name, each in settings.triggers.items()}
    for name, stored in _registered(settings).items():
        put = stored.table()
        rows.setdefault(name, (str(put.get("verifier")), "api", len(put.get("routes", ()))))
    table = Table(*(Column(name, overflow="fold") for name in ("name", "verifier", "source", "routes")), box=SIMPLE)
    for name in sorted(rows):
        table.add_row(name, *(str(each) for each in rows[name]))
    Console().print(table)


@app.command("test")
def send_delivery(
    name: str,
    file: Annotated[Path, typer.Option(help="The delivery's body.", exists=True, dir_okay=False)],
    event: Annotated[str, typer.Option(help="The event's type, where the provider says it in a header.")] = "",
    header: Annotated[list[str] | None, typer.Option(help="Another header, as 'name: value'.")] = None,
    to: Annotated[str | None, typer.Option(help="Where the gateway listens; default: its host and port here.")] = None,
) -> None:
    """Signs a body as the provider would, sends it to the gateway, and prints the answer."""
    settings = load_settings()
    trigger = _find(settings, name)
    own = settings.gateway
    body = file.read_bytes()
    given = tuple(_header(text) for text in header or ())
    if not any(key == "content-type" for key, _ in given):
        kind = "application/x-www-form-urlencoded" if looks_like_form(body) else "application/json"
        given = (("content-type", kind), *given)
    url = f"{(own.public_url or LOCAL_URL).rstrip('/')}/hooks/{name}"
    signed = trigger.verifier.sign(WebhookRequest("POST", url, given, body), time.time(), event=event)
    if signed is None:
        kind = trigger.verifier.name
        raise ConfigError(f"trigger {name}", f"{kind} alone can sign this: what is configured is its public key")
    answer = _send(f"{(to or _here(settings)).rstrip('/')}/hooks/{name}", signed)
    print(f"{answer.status_code} {answer.reason_phrase}", file=sys.stderr)
    print(answer.text)
    if not answer.is_success:
        raise typer.Exit(1)


def hook_url(name: str) -> None:
    """Prints the URL to paste into the provider's form."""
    settings = load_settings()
    if name not in settings.triggers and name not in _registered(settings):
        raise NotFound(f"no trigger named {name!r}; known: {', '.join(sorted(settings.triggers)) or 'none'}")
    base = settings.gateway.public_url
    if base is None:
        print("gateway: public_url of [gateway] is not set, so this is what only this machine reaches", file=sys.stderr)
    print(f"{(base or _here(settings)).rstrip('/')}/hooks/{name}")


def _find(settings: Settings, name: str) -> Trigger:
    registry = Registry.build(settings)
    if name in registry.triggers:
        return registry.triggers[name]
    stored = with_store(lambda store: find_trigger(store, name), settings)
    if stored is None:
        raise NotFound(f"no trigger named {name!r}; known: {', '.join(sorted(registry.triggers)) or 'none'}")
    return registry.make_trigger(name, read_trigger(name, stored.table(), ""))


def _registered(settings: Settings) -> dict[str, StoredTrigger]:
    """Those in Redis; none where there is no Redis to ask."""
    try:
        return with_store(list_triggers, settings)
    except (ConfigError, StoreUnavailable):
        return {}


def _send(url: str, request: WebhookRequest) -> httpx.Response:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers]
    try:
        return httpx.post(url, content=request.body, headers=headers, timeout=SEND_S, trust_env=False)
    except httpx.TransportError as exc:
        raise StoreUnavailable(f"no gateway answers at {url}: start one, or name it with --to") from exc


def _here(settings: Settings) -> str:
    """Where a gateway of this configuration listens, as seen from this machine."""
    own = settings.gateway
    host = "127.0.0.1" if own.host in ("0.0.0.0", "::") else own.host  # noqa: S104 (where to send, not to listen)
    return f"http://{f'[{host}]' if ':' in host else host}:{own.port}"


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition(":")
    if not sign:
        raise typer.BadParameter(f"{text!r} is no header; write 'name: value'", param_hint="--header")
    return name.strip().lower(), value.strip()
