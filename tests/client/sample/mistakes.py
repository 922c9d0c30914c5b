"""What a type checker has to find: every line that ends in `# wrong` and none besides."""

from __future__ import annotations

from gateway.client import Gateway

gateway = Gateway()
gateway.submit(7)  # wrong
gateway.submit("resize", delai="1s")  # wrong
gateway.submit("resize", priority="high")  # wrong
gateway.submit("resize", retry={"policy": "never"})  # wrong
gateway.submit("resize", callback={"events": ["job.dead"]})  # wrong
gateway.submit_many([{"payload": 1}])  # wrong
gateway.schedules.put("nightly", target="resize")  # wrong
print(gateway.get("id").no_such_field)  # wrong
gateway.submit("resize", {"a": object}, delay="1s", priority=3)
