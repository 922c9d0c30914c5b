"""`gateway serve`: the HTTP side."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.api.server import serve as serve_api
from gateway.cli.environment import Imports, open_process

Host = Annotated[str | None, typer.Option(help="The address to listen on; default: gateway.host, 127.0.0.1.")]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="The port to listen on; default: PORT or gateway.port, 8080."),
]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Gateway processes that share the port.")]


def serve(host: Host = None, port: Port = None, workers: Workers = 1, imports: Imports = None) -> None:
    """The HTTP side: takes jobs and webhooks in."""
    settings = open_process(imports)
    gateway = settings.gateway
    raise typer.Exit(
        serve_api(settings, host=host or gateway.host, port=gateway.port if port is None else port, workers=workers)
    )
