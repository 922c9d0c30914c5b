"""Asks the gateway and the dispatcher of this machine how they are: what health checks of containers run.

A check comes every few seconds, for ever, so this module stays light: `python -m gateway.health` costs a third of what
`gateway health` does, and means the same.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gateway.errors import ConfigError
from gateway.settings import GatewaySettings, load

Role = Literal["gateway", "dispatcher"]
ROLES: tuple[Role, ...] = get_args(Role)
TIMEOUT_S = 3.0
USAGE = "usage: python -m gateway.health [gateway | dispatcher] [--live]"

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (what is listened on, not by us)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one process said; `status` None: nothing answers there."""

    role: Role
    url: str
    status: int | None
    reason: str = ""

    @property
    def well(self) -> bool:
        return self.status == 200

    def __str__(self) -> str:
        word = "nothing answers" if self.status is None else "well" if self.well else f"not well ({self.status})"
        return f"{self.role} {self.url}: {word}{f', {self.reason}' if self.reason else ''}"


def ask(settings: GatewaySettings, role: Role | None = None, *, live: bool = False) -> list[Answer]:
    """The answers of the role, or of both; `live` asks whether they are alive, not whether they can work."""
    path = "/livez" if live else "/readyz"
    return [_ask(each, *_address(settings, each), path) for each in (ROLES if role is None else (role,))]


def is_well(answers: Sequence[Answer]) -> bool:
    """Whether somebody answered, and nobody said that it is not well."""
    spoke = [answer for answer in answers if answer.status is not None]
    return bool(spoke) and all(answer.well for answer in spoke)


def main(arguments: Sequence[str]) -> int:
    """The exit code of the command: 0 well, 1 not, 2 wrong usage, 78 the configuration is wrong."""
    live = "--live" in arguments
    names = [each for each in arguments if each != "--live"]
    role = next((each for each in ROLES if names == [each]), None)
    if names and role is None:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        answers = ask(load(os.environ, Path.cwd(), secrets_required=False).gateway, role, live=live)
    except ConfigError as error:
        print(f"gateway: {error}", file=sys.stderr)
        return os.EX_CONFIG
    print("\n".join(map(str, answers)))
    return 0 if is_well(answers) else 1


def _address(settings: GatewaySettings, role: Role) -> tuple[str, int]:
    host, port = (
        (settings.host, settings.port) if role == "gateway" else (settings.dispatcher_host, settings.dispatcher_port)
    )
    return _EVERYWHERE.get(host, host), port


def _ask(role: Role, host: str, port: int, path: str) -> Answer:
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Answer(role, url, response.status, "".join(_reasons(response.read(64 * 1024))))
    except TimeoutError:
        return Answer(role, url, 504, f"no answer within {TIMEOUT_S:g} s")
    except ConnectionRefusedError:
        return Answer(role, url, None, "connection refused")
    except (OSError, http.client.HTTPException) as error:
        return Answer(role, url, None, str(error) or type(error).__name__)
    finally:
        connection.close()


def _reasons(body: bytes) -> Iterator[str]:
    """Why it is not well, where the answer says so."""
    try:
        said = json.loads(body)
    except ValueError:
        return
    if isinstance(said, dict):
        yield from (str(said[name]) for name in ("reason", "detail") if said.get(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
