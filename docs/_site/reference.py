"""Pages that the site makes of the program itself: every operation of the HTTP API, every command."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import gateway
from gateway.api.openapi import describe_api
from gateway.api.operations import OPERATIONS
from gateway.cli import app
from gateway.cli.subcommands import SUBCOMMANDS, load
from gateway.jobs import LANES


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for name, lines in (("reference-http.md", http_page()), ("reference-cli.md", cli_page())):
        files.append(File.generated(config, name, content="\n".join(lines) + "\n"))
    return files


def http_page() -> Iterator[str]:
    """Every operation with its parameters, body and answers; then every schema with its fields."""
    document = describe_api(OPERATIONS, version=gateway.__version__, lanes=LANES)
    yield "# HTTP API, every operation\n"
    yield "Made from the program, as `GET /openapi.json` is. Answers not listed are [problems](api.md#errors).\n"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield from _operation(f"{method.upper()} {path}", operation)
    yield "\n# Schemas\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _operation(title: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"\n## `{title}`\n"
    (scope,) = operation.get("security", [{"apiKey": ["none"]}])[0]["apiKey"]
    yield f"{operation['summary']}. Scope: `{scope}`.\n"
    if parameters := operation.get("parameters"):
        yield "| parameter | in | value | meaning |\n| --- | --- | --- | --- |"
        for each in parameters:
            yield f"| `{each['name']}` | {each['in']} | {_kind(each['schema'])} | {each.get('description', '')} |"
        yield ""
    if body := operation.get("requestBody"):
        kinds = ", ".join(f"{_kind(content['schema'])} (`{kind}`)" for kind, content in body["content"].items())
        yield f"Body{'' if body['required'] else ', which may be left out'}: {kinds}.\n"
    for status, answer in operation["responses"].items():
        if status != "default":
            kinds = ", ".join(_kind(content["schema"]) for content in answer.get("content", {}).values())
            yield f"- `{status}` {kinds or 'without a JSON body'}"


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"\n## {name} {{#{name.lower()}}}\n"
    yield f"{schema.get('description', '')}\n"
    if "properties" in schema:
        yield "| field | value |\n| --- | --- |"
        required = schema.get("required", [])
        for field, kind in schema["properties"].items():
            yield f"| `{field}`{'' if field in required else ' (may be absent)'} | {_kind(kind)} |"


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words, for a cell of a table."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_kind(each) for each in schema[several])
    if "enum" in schema:
        return ", ".join(f"`{value!r}`".replace("'", '"') for value in schema["enum"] if value != "")
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items') or {})}"
    kind = schema.get("type", "any JSON" if "const" not in schema else "empty")
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = f", {least} to {most}" if least is not None and most is not None else ""
    return f"{kind}{bounds}" + (f" ({schema['format']})" if "format" in schema else "")


def cli_page() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield "# Command line\n"
    yield "Exit codes: 0 well, 1 failed, 2 wrong usage, 69 Redis is away, 78 the configuration is wrong.\n"
    yield from _commands(typer.main.get_command(app), "gateway", SUBCOMMANDS)


def _commands(command: Any, name: str, lazy: Container[str] = ()) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    children = getattr(command, "commands", None)
    if children is None or name == "gateway":
        yield f"\n## `{name}`\n"
        yield f"{(command.help or '').strip()}\n"
        rows = [each.get_help_record(context) for each in command.params]
        rows = [row for row in rows if row is not None]
        yield from (["| | |\n| --- | --- |"] if rows else [])
        for row in rows:
            yield f"| `{row[0].replace('|', ' / ')}` | {row[1].replace('|', '/')} |"
    for child, each in sorted((children or {}).items()):
        if not each.hidden:
            yield from _commands(load(child) if child in lazy else each, f"{name} {child}")
