"""`/openapi.json`, made from the operations and the models, so that it cannot say anything else than they do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from gateway.api.models import Problem
from gateway.api.operations import ANY_METHOD, DELIVERY_METHODS, Operation
from gateway.api.refinements import REFINEMENTS, describe_parameter
from gateway.durations import Duration
from gateway.limits import Rate

_PATH_VALUE = re.compile(r"\{(\w+)\}")


def describe_api(operations: Sequence[Operation], *, version: str, lanes: Sequence[str]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the operations, for an installation with these lanes."""
    kinds = _kinds(operations)
    schemas, components = msgspec.json.schema_components(
        kinds, schema_hook=_schema_of, ref_template="#/components/schemas/{name}"
    )
    schema_of = dict(zip(map(str, kinds), schemas, strict=True))
    for name, more in REFINEMENTS.items():
        components[name] = _refined(components[name], more)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        for method in _methods(operation):
            paths.setdefault(operation.path, {})[method] = _describe(operation, method, schema_of, lanes)
    _link(paths, operations)
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


def _methods(operation: Operation) -> tuple[str, ...]:
    methods = DELIVERY_METHODS if operation.method == ANY_METHOD else (operation.method,)
    return tuple(method.lower() for method in methods)


def _name(operation: Operation, method: str) -> str:
    return f"{method}{operation.path}".replace("/", "_").replace("{", "").replace("}", "")


def _refined(schema: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The schema with what a type cannot say; of a property, what is refined stands instead."""
    return schema | more | {"properties": schema["properties"] | more.get("properties", {})}


def _link(paths: dict[str, dict[str, Any]], operations: Sequence[Operation]) -> None:
    """Says which operations take the id that an answer gives, or the name that a PUT gave."""
    for operation in operations:
        for status, kind in operation.answers.items():
            names = {field.name for each in _alternatives(kind) for field in msgspec.structs.fields(each)}
            known = {name: f"$response.body#/{name}" for name in names if name.endswith("_id")}
            if operation.method == "PUT":
                known |= {name: f"$request.path.{name}" for name in _PATH_VALUE.findall(operation.path)}
            links = {
                _name(other, method): {"operationId": _name(other, method), "parameters": {value: known[value]}}
                for other in operations
                if other is not operation
                for value in _PATH_VALUE.findall(other.path)
                for method in _methods(other)
                if value in known
            }
            if links:
                for method in _methods(operation):
                    paths[operation.path][method]["responses"][str(status)]["links"] = links


def _describe(operation: Operation, method: str, schema_of: dict[str, Any], lanes: Sequence[str]) -> dict[str, Any]:
    out: dict[str, Any] = {"operationId": _name(operation, method), "summary": operation.summary, "responses": {}}
    parameters = [
        describe_parameter(each, kind, text, lanes=lanes)
        for kind, described in (
            ("path", dict.fromkeys(_PATH_VALUE.findall(operation.path), "")),
            ("query", operation.query),
            ("header", operation.headers),
        )
        for each, text in described.items()
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
