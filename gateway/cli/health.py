"""`gateway health`: are the processes of this machine well?"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from gateway.cli.environment import load_settings
from gateway.health import ROLES, ask, is_well

Role = Annotated[str | None, typer.Argument(help="gateway or dispatcher; left out: whichever of the two answers.")]
Live = Annotated[bool, typer.Option("--live", help="Ask whether it is alive, not whether it can work.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def health(role: Role = None, live: Live = False, as_json: AsJson = False) -> None:
    """Asks the gateway and the dispatcher of this machine how they are; exits with 1 unless they can work."""
    wanted = next((each for each in ROLES if each == role), None)
    if role is not None and wanted is None:
        raise typer.BadParameter(f"no role named {role!r}; there are: {', '.join(ROLES)}")
    answers = ask(load_settings(secrets_required=False).gateway, wanted, live=live)
    if as_json:
        print(json.dumps({"well": is_well(answers), "answers": [asdict(answer) for answer in answers]}))
    else:
        print("\n".join(map(str, answers)))
    raise typer.Exit(0 if is_well(answers) else 1)
