"""The `gateway` command as a version with the next schema would be: what the rolling upgrade test runs beside this one.

`NEWER_OLDEST` is the oldest schema that it lets write beside its own.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache

from gateway.cli import main
from gateway.store import scripts, store
from gateway.store.scripts import Script

OURS, OLDEST = f"local SCHEMA = {store.SCHEMA}\n", "local OLDEST = 1\n"


def become_newer(oldest: int) -> None:
    """Makes this process a version with the next schema."""
    original = scripts.script

    @cache
    def script(name: str) -> Script:
        source = original(name).source
        assert source.count(OURS) == 1, "the prelude says its schema in another way now"
        source = source.replace(OURS, f"local SCHEMA = {store.SCHEMA}\n")
        if name == "configure":
            assert source.count(OLDEST) == 1, "the script says what may write in another way now"
            source = source.replace(OLDEST, f"local OLDEST = {oldest}\n")
        return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())

    store.SCHEMA += 1
    scripts.script = script


if __name__ == "__main__":
    become_newer(int(os.environ["NEWER_OLDEST"]))
    main()
