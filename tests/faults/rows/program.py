"""Programs that do not want to end, each in its own way."""

from __future__ import annotations

import os
import signal
import sys
import time


def fork() -> None:
    for _ in range(20):
        if os.fork() == 0:
            time.sleep(600)
    time.sleep(600)


def escape() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    time.sleep(600)


def flood() -> None:
    while True:
        os.write(1, b"x" * 65536)


def deaf() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


{"fork": fork, "escape": escape, "flood": flood, "deaf": deaf}[sys.argv[1]]()
