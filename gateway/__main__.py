"""The `gateway` command, and `python -m gateway`."""

from __future__ import annotations

import importlib
import sys

INTERRUPTED = 130


def main() -> None:
    """Runs the command; Ctrl-C while it is still being imported ends it without a word, as a shell expects."""
    try:
        importlib.import_module("gateway.cli").main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
