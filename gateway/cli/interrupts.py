"""Ctrl-C, once: the first one ends the command, and what cleans up after it is not interrupted again."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def one_interrupt() -> Iterator[Callable[[], None]]:
    """Raises KeyboardInterrupt at the first of the signals and ignores any later one.

    Yields a function that begins to ignore them at once; a signal that was ignored before stays so.
    """
    before = {sig: signal.getsignal(sig) for sig in SIGNALS if signal.getsignal(sig) is not signal.SIG_IGN}

    def ignore() -> None:
        for sig in before:
            signal.signal(sig, signal.SIG_IGN)

    def interrupt(*_: object) -> None:
        ignore()
        raise KeyboardInterrupt

    for sig in before:
        signal.signal(sig, interrupt)
    try:
        yield ignore
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
