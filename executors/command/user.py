"""Another user for commands to run as."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass

_NUMBERS_END = 2**32 - 1
"""Users and groups have numbers below this, which stands for none."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of this machine, with its groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def environment(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    def numbers(self) -> dict[str, object]:
        return {"uid": self.uid, "gid": self.gid, "groups": self.groups}


def find_user(text: str) -> User:
    """The user of `"name"`, `"name:group"` or numbers in their place; raises ValueError if there is none."""
    name, colon, group = text.partition(":")
    try:
        found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError, ValueError):
        if not name.isdecimal() or not colon or int(name) >= _NUMBERS_END:
            raise ValueError(f"user: there is no user {name!r} on this machine") from None
        gid = _find_group(group)
        return User(name, int(name), gid, (gid,), "/")
    gid = _find_group(group) if colon else found.pw_gid
    groups = (gid,) if colon else tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return User(found.pw_name, found.pw_uid, gid, groups, found.pw_dir)


def _find_group(name: str) -> int:
    try:
        return int(name) if name.isdecimal() and int(name) < _NUMBERS_END else grp.getgrnam(name).gr_gid
    except (KeyError, ValueError):
        raise ValueError(f"user: there is no group {name!r} on this machine") from None
