"""The standard streams as a command finds them: closed, full, left by their reader, or poor in characters."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """All three are there, and the output is written when the block ends; if it cannot be, the command fails."""
    _open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: a name need not suit the terminal
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `gateway … | head -1`
        _drop_output()
        sys.exit(1)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _drop_output()
        print(f"gateway: standard output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)


def _open_closed() -> None:
    """Opens on nothing what whoever started us has closed: the next file or socket would have its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 (a number)


def _drop_output() -> None:
    """Lets Python write what it still has to nowhere when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
