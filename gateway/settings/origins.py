"""Where each setting comes from: a variable, the file, or nowhere, so that the default stands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.settings.decoding import field_names
from gateway.settings.environment import SECTIONS, overrides
from gateway.settings.loading import named_variables, read_file

DEFAULT = "default"


def origins(environ: Mapping[str, str], directory: Path) -> dict[tuple[str, str], str]:
    """By section and key: the variable's name, the file's, or `default`; raises ConfigError."""
    source, table = read_file(environ, directory)
    over = overrides(environ, set(named_variables(table)))
    found = {}
    for section, kind in SECTIONS.items():
        written: Any = table.get(section, {})
        for key in field_names(kind):
            variable = over.get((section, key))
            found[section, key] = variable.variable if variable else source if key in written else DEFAULT
    return found
