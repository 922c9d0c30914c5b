"""`gateway signing-keys`: shows the keys that callbacks verify with, and changes them."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli.reading import read_duration
from gateway.cli.session import Session, speaks
from gateway.client.answers import SigningKeys
from gateway.client.calls import installation as calls

app = typer.Typer(
    help="Shows the keys that callbacks verify with, and changes them.", add_completion=False, no_args_is_help=True
)


@app.command("list")
@speaks
def list_(session: Session) -> None:
    """Prints the public keys, the present one first."""
    session.signing().show(calls.list_signing_keys(), _print)


@app.command()
@speaks
def rotate(
    session: Session,
    overlap: Annotated[str | None, typer.Option(help="How long the old one signs as well; left out: 7d.")] = None,
) -> None:
    """Makes a new key, and prints the public keys, the new one first."""
    session.signing().show(calls.rotate_signing_key(read_duration(overlap)), _print)


def _print(keys: SigningKeys) -> None:
    for key in keys.keys:
        print(key.public_key)
