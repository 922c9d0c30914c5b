"""Modules that most processes never need, loaded when something of them is first asked for."""

from __future__ import annotations

import importlib
from typing import Any


class Late:
    """Stands for a module by its name. Where it is assigned, type checkers are shown the import itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, found)  # what was found once is not asked for again
        return found
