"""Runs `gateway` commands one after another in one process: a start costs more than most commands.

Standard input has a JSON line for each, `{"arguments": […], "input": "…", "folder": "…", "environ": {…}}`; the answer
is one too. A command finds nothing of the one before: neither its folder, nor its environment, nor its modules.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gateway.cli import main


@contextmanager
def placed(folder: str, environ: Mapping[str, str]) -> Iterator[None]:
    """As if the process had been started there, with this environment."""
    path, known = list(sys.path), set(sys.modules)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        os.chdir("/")  # an installation that is closed kills what works in its folder
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{folder}/"):
                del sys.modules[name]


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
        with placed(wanted["folder"], wanted["environ"]):
            answer = run(wanted["arguments"], wanted["input"])
        print(json.dumps(answer), flush=True)
