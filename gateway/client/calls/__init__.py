"""Every call that the clients make, by what it concerns: requests built, answers read, no I/O."""

from __future__ import annotations
