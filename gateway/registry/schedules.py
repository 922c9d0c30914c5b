"""Schedules of the configuration file: checked against the targets and lanes that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gateway.errors import ConfigError, RequestError
from gateway.registry.targets import Target
from gateway.schedules import Schedule
from gateway.schedules.definition import make_schedule
from gateway.settings import ScheduleSettings, join_place
from gateway.submission.faults import Faults
from gateway.submission.schedule import check_schedule

_INDEX = re.compile(r"\.(\d+)(?=\.|\Z)")


def make_file_schedule(
    name: str, settings: ScheduleSettings, *, targets: Mapping[str, Target], lanes: Sequence[str]
) -> Schedule:
    """The schedule of a configured table; raises ConfigError with the place of the first fault."""
    faults = Faults()
    check_schedule(settings.body, targets=targets, lanes=lanes, faults=faults)
    try:
        faults.raise_any()
    except RequestError as exc:
        fault = exc.faults[0]
        path = _INDEX.sub(r"[\1]", fault.pointer.removeprefix("/").replace("/", "."))
        raise ConfigError(join_place(settings.place, path), fault.detail) from exc
    return make_schedule(name, settings.body, "file")
