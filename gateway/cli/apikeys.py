"""`gateway apikeys`: makes, lists and deletes API keys."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from gateway.apikeys import SCOPES, Scope
from gateway.cli.printing import print_table
from gateway.cli.session import Session, speaks
from gateway.client.answers import Keys
from gateway.client.bodies import CallbackOptions
from gateway.client.calls import installation as calls

app = typer.Typer(help="Makes, lists and deletes API keys.", add_completion=False, no_args_is_help=True)


@app.command()
@speaks
def create(
    session: Session,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[str], typer.Option(help=f"One or more of: {', '.join(SCOPES)}.")] = ["submit", "read"],  # noqa: B006 (typer copies it)
    callback_url: Annotated[str | None, typer.Option(help="Where its jobs are told of that name none.")] = None,
) -> None:
    """Makes a key and prints it; it cannot be shown again."""
    if unknown := set(scope) - set(SCOPES):
        raise typer.BadParameter(f"no scope named {', '.join(sorted(unknown))}; there are: {', '.join(SCOPES)}")
    callback: CallbackOptions | None = {"url": callback_url} if callback_url else None
    session.show(calls.create_key(name, cast("list[Scope]", scope), callback), lambda made: print(made.key))


@app.command("list")
@speaks
def list_(session: Session) -> None:
    """Lists the keys, without their secrets."""
    session.show(calls.list_keys(), _print)


@app.command()
@speaks
def delete(session: Session, key_id: Annotated[str, typer.Argument(help="The key's id.")]) -> None:
    """Deletes a key; gateways forget it within 5 seconds."""
    session.run(lambda gateway: gateway.call(calls.delete_key(key_id)))
    session.done({"deleted": key_id}, f"deleted {key_id}")


def _print(keys: Keys) -> None:
    rows = [(key.id, key.name, ", ".join(key.scopes), key.created_at) for key in keys.apikeys]
    print_table(("id", "name", "scopes", "made"), rows)
