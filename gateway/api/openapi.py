"""`/openapi.json`, made from the operations and the models, so that it cannot say anything else than they do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from gateway.api.models import Problem
from gateway.api.operations import ANY_METHOD, Operation
from gateway.durations import Duration
from gateway.limits import Rate

_PATH_VALUE = re.compile(r"\{(\w+)\}")
_METHODS = ("get", "post")
"""How a path that takes any method is described: what providers send."""


def describe_api(operations: Sequence[Operation], *, version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the operations."""
    kinds = _kinds(operations)
    schemas, components = msgspec.json.schema_components(
        kinds, schema_hook=_schema_of, ref_template="#/components/schemas/{name}"
    )
    schema_of = dict(zip(map(str, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        methods = _METHODS if operation.method == ANY_METHOD else (operation.method.lower(),)
        for method in methods:
            paths.setdefault(operation.path, {})[method] = _describe(operation, method, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "event-gateway", "version": version},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer", "description": "gwk_<id>_<secret>"}},
        },
    }


def _kinds(operations: Sequence[Operation]) -> list[Any]:
    kinds: dict[str, Any] = {str(Problem): Problem}
    for operation in operations:
        for kind in (operation.body, *operation.answers.values()):
            for each in _alternatives(kind):
                kinds[str(each)] = each
    return list(kinds.values())


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return kind if isinstance(kind, tuple) else () if kind is None else (kind,)


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is Duration:
        return {
            "description": 'a duration: "250ms", "1.5s", "10m", "2h", "7d", or seconds',
            "anyOf": [{"type": "string", "pattern": r"^\d+(\.\d+)?(ms|s|m|h|d)$"}, {"type": "number", "minimum": 0}],
        }
    if kind is Rate:
        return {"description": "a count per time", "type": "string", "pattern": r"^\d+(\.\d+)?/\d*(s|m|h|d)$"}
    raise NotImplementedError(kind)


def _describe(operation: Operation, method: str, schema_of: dict[str, Any]) -> dict[str, Any]:
    name = f"{method}{operation.path}".replace("/", "_").replace("{", "").replace("}", "")
    out: dict[str, Any] = {"operationId": name, "summary": operation.summary, "responses": {}}
    parameters = [
        {"name": each, "in": "path", "required": True, "schema": {"type": "string"}}
        for each in _PATH_VALUE.findall(operation.path)
    ]
    parameters += [
        {"name": each, "in": "query", "description": text, "schema": {"type": "string"}}
        for each, text in operation.query.items()
    ]
    parameters += [
        {"name": each, "in": "header", "description": text, "schema": {"type": "string"}}
        for each, text in operation.headers.items()
    ]
    if parameters:
        out["parameters"] = parameters
    if operation.scope is not None:
        out["security"] = [{"apiKey": [operation.scope]}]
    if operation.body is not None:
        content = _content(operation.body, schema_of)
        out["requestBody"] = {"required": operation.body_required, "content": content}
    for status, kind in operation.answers.items():
        out["responses"][str(status)] = _answer(operation.summary, kind, schema_of)
    problem = {"application/problem+json": {"schema": schema_of[str(Problem)]}}
    out["responses"]["default"] = {"description": "a problem", "content": problem}
    return out


def _content(kind: Any, schema_of: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema_of[str(kind)]}}
    if items := get_args(kind):
        content["application/x-ndjson"] = {"schema": schema_of[str(items[0])]}
    return content


def _answer(summary: str, kind: Any, schema_of: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": summary}
    schemas = [schema_of[str(each)] for each in _alternatives(kind)]
    if schemas:
        answer["content"] = {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}}
    return answer
