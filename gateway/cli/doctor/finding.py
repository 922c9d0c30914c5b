"""What a check of the doctor looks at, and what it has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.settings import Settings
from gateway.store import Store

Level = Literal["ok", "mended", "warning", "fault"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's: `detail` says what is so, of which, and the mend. A fault makes the command fail."""

    level: Level
    detail: str


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined, and how. The store is not connected yet, and Redis may be away."""

    settings: Settings
    store: Store
    repair: bool = False
    """Mend what can be mended."""

    stopped: bool = False
    """Nothing else works on the data, so it may be blocked for as long as it takes."""
