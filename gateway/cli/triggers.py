"""`gateway triggers` and `gateway hook-url`: which there are, what to paste where, a delivery to oneself."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import httpx
import msgspec
import typer

from gateway.cli.environment import load_settings, with_store
from gateway.cli.printing import print_answer, print_facts, print_table, printable
from gateway.cli.reading import read_object
from gateway.cli.session import Session, speaks
from gateway.client.answers import DeliveryShown, DeliverySummary, Triggers
from gateway.client.calls import triggers as calls
from gateway.errors import ConfigError, NotFound, StoreUnavailable
from gateway.registry import Registry
from gateway.schemes import looks_like_form
from gateway.settings import Settings, read_trigger
from gateway.spelling import mend_name
from gateway.store.triggers import StoredTrigger, find_trigger, list_triggers
from gateway.triggers import Trigger
from gateway.verifier import Verifier, WebhookRequest

SEND_S = 65.0
"""Longer than an answer with a job's result may take."""

app = typer.Typer(
    help="Lists, shows and registers triggers, and sends one a delivery.", add_completion=False, no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="The trigger's name.")]


@app.command("list")
@speaks
def list_(session: Session) -> None:
    """Lists the triggers of the file, and those that were registered over the API."""
    session.show(calls.list_triggers(), _print_all)


@app.command()
@speaks
def show(session: Session, name: Name) -> None:
    """Shows a trigger, its routes, and what came in; secrets are only counted."""
    session.show(calls.get_trigger(name), lambda trigger: print_facts(msgspec.structs.asdict(trigger)))


@app.command()
@speaks
def put(
    session: Session,
    name: Name,
    table: Annotated[str, typer.Argument(help="Its table as JSON; - reads standard input, @FILE a file.")],
) -> None:
    """Registers a trigger, or replaces it: {"verifier": "github", "secrets": ["…"], "routes": [{"target": "…"}]}."""
    session.show(calls.put_trigger(name, read_object(table)), lambda trigger: print(trigger.url or trigger.path))


@app.command()
@speaks
def delete(session: Session, name: Name) -> None:
    """Deletes a registered trigger."""
    session.run(lambda gateway: gateway.triggers.delete(name))
    session.done({"deleted": name}, f"deleted {name}")


@app.command()
@speaks
def deliveries(
    session: Session,
    name: Name,
    verdict: Annotated[str | None, typer.Option(help="Of this verdict only, such as rejected.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
) -> None:
    """Lists a trigger's last deliveries, the newest first, with what became of them."""
    session.list(calls.list_deliveries(name, min(limit, 100), verdict), limit, print_deliveries)


@app.command()
@speaks
def delivery(
    session: Session, name: Name, delivery_id: Annotated[str, typer.Argument(help="The delivery's id.")]
) -> None:
    """Shows a delivery, what became of it and why, its headers, and its body if that was kept."""
    session.show(calls.get_delivery(name, delivery_id), print_delivery)


@app.command()
@speaks
def replay(
    session: Session, name: Name, delivery_id: Annotated[str, typer.Argument(help="The delivery's id.")]
) -> None:
    """Sends a delivery through the routes again, and prints the ids of its jobs."""
    session.show(
        calls.replay_delivery(name, delivery_id),
        lambda found: print("\n".join(job.job_id for job in found.jobs) or "no route wants it"),
    )


@app.command("test")
def send_delivery(
    name: str,
    file: Annotated[Path, typer.Option(help="The delivery's body.", exists=True, dir_okay=False)],
    event: Annotated[str, typer.Option(help="The event's type, where the provider says it in a header.")] = "",
    header: Annotated[list[str] | None, typer.Option(help="Another header, as 'name: value'.")] = None,
    to: Annotated[
        str | None, typer.Option(help="The gateway's URL, or the trigger's own; default: its host and port here.")
    ] = None,
) -> None:
    """Signs a body as the provider would, sends it to the gateway, and prints the answer."""
    settings = load_settings(secrets_required=False)
    trigger = _find(settings, name)
    body = file.read_bytes()
    given = tuple(_header(text) for text in header or ())
    if not any(key == "content-type" for key, _ in given):
        kind = "application/x-www-form-urlencoded" if looks_like_form(body) else "application/json"
        given = (("content-type", kind), *given)
    url = f"{settings.gateway.base_url}/hooks/{name}"
    signed = trigger.verifier.sign(WebhookRequest("POST", url, given, body), time.time(), event=event)
    if signed is None:
        raise ConfigError(f"trigger {name}", _unsigned(trigger.verifier))
    base = (to or _here(settings)).rstrip("/").removesuffix(f"/hooks/{name}")
    answer = _send(f"{base}/hooks/{name}", signed)
    print(f"{answer.status_code} {printable(answer.reason_phrase)}", file=sys.stderr)
    print_answer(answer.content)
    if answer.is_success and (open_end := _left_open(answer, name)):
        print(open_end, file=sys.stderr)
    if not answer.is_success:
        raise typer.Exit(1)


def hook_url(name: str) -> None:
    """Prints the URL to paste into the provider's form."""
    settings = load_settings(secrets_required=False)
    if name not in settings.triggers and name not in _registered(settings):
        raise _no_trigger(name, settings)
    base = settings.gateway.public_url
    if base is None:
        print("gateway: public_url of [gateway] is not set, so this is what only this machine reaches", file=sys.stderr)
    print(f"{(base or _here(settings)).rstrip('/')}/hooks/{name}")


def _print_all(found: Triggers) -> None:
    rows = [(each.name, each.verifier, each.source, len(each.routes), each.fault) for each in found.triggers]
    print_table(("name", "verifier", "source", "routes", "fault"), rows)


def print_deliveries(found: list[DeliverySummary], more: bool) -> None:
    """Deliveries as a table."""
    print_table(("id", "at", "verdict", "event, reason", "jobs"), map(_row, found))
    if more:
        print("there are more; --limit shows them")


def print_delivery(found: DeliveryShown) -> None:
    """Facts, headers and body, each as a paragraph."""
    facts = msgspec.structs.asdict(found)
    headers = facts.pop("headers")
    print_facts({name: value for name, value in facts.items() if not name.startswith("body")})
    print("", *(f"{name}: {printable(value)}" for name, value in headers), "", sep="\n")
    body = found.body if found.body is not None else found.body_base64
    print("the body was not kept" if body is None else "\n".join(map(printable, body.splitlines())))


def _row(each: DeliverySummary) -> tuple[object, ...]:
    lines = (each.event, each.reason, each.replay_of and f"of {each.replay_of}")
    return each.id, each.at, each.verdict, tuple(filter(None, lines)), len(each.jobs)


def _no_trigger(name: str, settings: Settings) -> NotFound:
    mend = mend_name(name, sorted(settings.triggers))
    if not (settings.directory / settings.source).exists():
        mend += f"; there is no {settings.source} in {settings.directory}"
    return NotFound(f"no trigger named {name!r}; {mend}")


def _find(settings: Settings, name: str) -> Trigger:
    registry = Registry.build(settings)
    if name in registry.triggers:
        return registry.triggers[name]
    stored = with_store(lambda store: find_trigger(store, name), settings)
    if stored is None:
        raise _no_trigger(name, settings)
    return registry.make_trigger(name, read_trigger(name, stored.table(), ""))


def _unsigned(verifier: Verifier[Any]) -> str:
    if type(verifier).sign is Verifier.sign:
        return f"its verifier {verifier.name} cannot sign; give the plugin's class a method sign"
    return f"{verifier.name} alone can sign this: what is configured is its public key"


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
    except httpx.InvalidURL as exc:
        raise typer.BadParameter(f"{url!r} is no URL of a gateway", param_hint="--to") from exc
    except httpx.TransportError as exc:
        raise StoreUnavailable(f"no gateway answers at {url}: start one, or name it with --to") from exc


def _left_open(answer: httpx.Response, name: str) -> str:
    """What the answer does not say: that no route held, or all, where the trigger has one of its own."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or "jobs" not in found:
        return f"what became of it: gateway triggers deliveries {name}"
    return "" if found["jobs"] else "accepted, but no route holds"


def _here(settings: Settings) -> str:
    """Where a gateway of this configuration listens, as seen from this machine."""
    own = settings.gateway
    host = "127.0.0.1" if own.host in ("0.0.0.0", "::") else own.host  # noqa: S104 (where to send, not to listen)
    return f"http://{f'[{host}]' if ':' in host else host}:{own.port}"


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition(":")
    if not sign or not name.strip().isascii() or not all(letter <= "\xff" for letter in value):
        raise typer.BadParameter(f"{text!r} is no header; write 'name: value'", param_hint="--header")
    return name.strip().lower(), value.strip()
