"""The mend for a name that nothing has: the nearest one, and what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 20
"""How many names a message lists; an installation may have thousands of targets."""


def mend_name(word: str, known: Iterable[str]) -> str:
    """`did you mean "timeout"? known: …` if a name is near, else `known: …`."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(word, names, n=1)
    listing = f"known: {known_names(names)}"
    return f'did you mean "{near[0]}"? {listing}' if near else listing


def known_names(known: Iterable[str]) -> str:
    """The names with commas between, in their order, cut after 20; `none` if there are none."""
    names = list(known)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "none"
