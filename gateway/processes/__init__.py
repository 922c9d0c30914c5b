"""Supervised processes: started by a small launcher, fed and read without bounds being passed, and none left over.

For executors that run programs. Linux kills what a killed dispatcher leaves; elsewhere what is not its own process
group may stay.
"""

from __future__ import annotations

from gateway.processes.child import Child, Ending
from gateway.processes.control import SWEEP_S, Control
from gateway.processes.launcher import Ends, Launcher
from gateway.processes.lines import Lines
from gateway.processes.streams import Head, Reader, Tail, Writer
from gateway.processes.talk import Messages, Talk, frame

__all__ = [
    "SWEEP_S",
    "Child",
    "Control",
    "Ending",
    "Ends",
    "Head",
    "Launcher",
    "Lines",
    "Messages",
    "Reader",
    "Tail",
    "Talk",
    "Writer",
    "frame",
]
