"""Runs `gateway` commands one after another in one process: a start costs more than most commands.

Standard input has a JSON line for each, `{"arguments": […], "input": "…"}`; the answer is one too.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from gateway.cli import main


def run(arguments: list[str], text: str) -> dict[str, Any]:
    """What the command printed, and what it exited with."""
    pipes = {name: io.BytesIO() for name in ("stdout", "stderr")}
    streams = {name: io.TextIOWrapper(pipe, "utf-8", write_through=True) for name, pipe in pipes.items()}
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["gateway", *arguments]
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    sys.stdout, sys.stderr = streams["stdout"], streams["stderr"]
    try:
        main()
        code: Any = 0
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    printed = {name: pipe.getvalue().decode() for name, pipe in pipes.items()}
    KEPT.extend(streams.values())
    return {"code": code, **printed}


KEPT: list[io.TextIOWrapper] = []
"""Loggers keep the stream that they were made with."""

if __name__ == "__main__":
    for line in sys.stdin:
        wanted = json.loads(line)
        print(json.dumps(run(wanted["arguments"], wanted["input"])), flush=True)
