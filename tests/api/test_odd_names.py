"""Names in paths that nothing can have: every operation says that there is no such thing, and never fails of one."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from gateway.api.operations import ANY_METHOD, OPERATIONS
from tests.api.running import Running

NAMES = ("~x", "~revision", "!", "*", ":", ",", "a:b", "a|b", "a b", "\x00", "\n", "é", "..;", "%", "~" * 300)
PARAMETER = re.compile(r"\{\w+\}")
BODIES: dict[str, dict[str, Any]] = {
    "/targets/{target}": {"executor": "http", "url": "https://example.com/"},
    "/schedules/{name}": {"cron": "@daily", "target": "echo"},
    "/triggers/{trigger}": {"verifier": "github", "secrets": ["s"]},
}


async def test_no_name_in_a_path_makes_an_operation_fail(api: Running) -> None:
    named = [each for each in OPERATIONS if PARAMETER.search(each.path)]
    assert len(named) > 30
    failed = []
    for operation in named:
        method = "POST" if operation.method == ANY_METHOD else operation.method
        body = BODIES.get(operation.path) if method == "PUT" else None
        for name in NAMES:
            answer = await api.client.request(method, PARAMETER.sub(quote(name, safe=""), operation.path), json=body)
            if answer.status_code > 499:
                failed.append((method, operation.path, name, answer.status_code))
    assert failed == []


async def test_target_of_a_name_that_none_can_have_is_not_there_to_be_removed(api: Running) -> None:
    answer = await api.client.delete("/targets/~revision")
    assert answer.status_code == 404
    assert "no target named '~revision' was registered" in answer.json()["detail"]
