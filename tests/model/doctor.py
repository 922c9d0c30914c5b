"""The repair scripts find nothing in a life in which nothing was damaged."""

from __future__ import annotations

import msgspec

from tests.model.driver import Driver
from tests.model.model import Broken

INDEXES = ("lane", "suspect", "flow", "due", "leases", "dead", "done")
MOST = 1000


def examine(driver: Driver) -> None:
    """Has the scripts look at everything; Broken if they find something, or change something."""
    driver.inspect()
    snapshot = driver.snapshot
    calls: list[list[str]] = [["repair_jobs", *snapshot.jobs]]
    calls += [
        ["repair_index", name, *members] for name, members in snapshot.zsets.items() if name.split(":")[0] in INDEXES
    ]
    for target in driver.model.targets:
        keys = {name.split(":")[2] for name in snapshot.hashes if name.startswith(f"fk:{target}:")}
        queues = [name.split(":", 3) for name in snapshot.zsets if name.startswith("flow:")]
        keys |= {key for _, _, of_target, key in queues if of_target == target and key}
        calls += [["repair_flows", str(MOST), target, "", *keys], ["repair_flows", str(MOST), target]]
    calls += [["repair_lane", str(MOST), lane] for lane in driver.model.lanes]
    for name, *args in calls:
        reply, after = driver.engine.run(name, ["0", *args])
        if found := msgspec.msgpack.decode(reply):
            raise Broken(f"{name} finds {found} where nothing is wrong")
        if after != snapshot:
            raise Broken(f"{name} changed something, and was only to look")
