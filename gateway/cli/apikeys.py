"""`gateway apikeys`: makes, lists and deletes API keys, straight in Redis."""

from __future__ import annotations

import json
import time
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.table import Table

from gateway.apikeys import SCOPES, Scope
from gateway.cli.environment import with_store
from gateway.store.apikeys import create_key, delete_key, list_keys

app = typer.Typer(help="Makes, lists and deletes API keys.", no_args_is_help=True)


@app.command()
def create(
    name: str,
    scope: Annotated[list[str], typer.Option(help=f"One or more of: {', '.join(SCOPES)}.")] = ["submit", "read"],  # noqa: B006 (typer copies it)
) -> None:
    """Makes a key and prints it; it cannot be shown again."""
    if unknown := set(scope) - set(SCOPES):
        raise typer.BadParameter(f"no scope named {', '.join(sorted(unknown))}; there are: {', '.join(SCOPES)}")
    scopes = [cast("Scope", each) for each in scope]
    _, text = with_store(lambda store: create_key(store, name, scopes, now_ms=time.time_ns() // 1_000_000))
    print(text)


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Lists the keys, without their secrets."""
    keys = with_store(list_keys)
    if as_json:
        print(json.dumps([{"id": key.key_id, "name": key.name, "scopes": key.scopes} for key in keys]))
        return
    table = Table("id", "name", "scopes")
    for key in keys:
        table.add_row(key.key_id, key.name, ", ".join(key.scopes))
    Console().print(table)


@app.command()
def delete(key_id: str) -> None:
    """Deletes a key; gateways forget it within 5 seconds."""
    with_store(lambda store: delete_key(store, key_id))
