"""Terraform files, parsed: what they define, what they refer to, and what values have without an account."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2

from tests.deploy.programs import Program, image
from tests.documents import ROOT

MODULE = ROOT / "terraform" / "aws"
EXAMPLE = ROOT / "terraform" / "examples" / "aws"

GIVEN: dict[str, Any] = {
    "var_public_url": "https://hooks.example.com",
    "random_password_redis_result": "p" * 40,
    "random_password_api_key_result": "k" * 43,
    "aws_elasticache_replication_group_this_primary_endpoint_address": "redis.internal",
    "aws_elasticache_replication_group_this_configuration_endpoint_address": "redis.internal",
}
"""What only AWS, and who uses the module, could say."""

_REFERENCE = re.compile(r"(?<![\w.\"$/-])((?:data\.)?[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+)")
_STRING = re.compile(r'"(?:[^"\\$]|\\.|\$(?!\{))*"')
_TEMPLATE = re.compile(r"\$\{([^{}]*)\}")
_LOCAL_NAMES = ("each", "self", "path", "count", "terraform")


@dataclass(frozen=True, slots=True)
class Configuration:
    """All blocks of a folder. `resources`, also data sources, and `modules` by their address."""

    variables: dict[str, dict[str, Any]]
    locals: dict[str, Any]
    outputs: dict[str, dict[str, Any]]
    resources: dict[str, dict[str, Any]]
    modules: dict[str, dict[str, Any]]
    text: str

    def value(self, expression: Any, **given: Any) -> Any:
        """The value of an expression of literals, templates, locals, variables and a condition on one of these.

        `given`: by address with dots as underscores, what only AWS would know, and variables without a default.
        """
        if isinstance(expression, dict):
            return {_plain(name): self.value(inner, **given) for name, inner in _own(expression)}
        if isinstance(expression, list):
            return [self.value(inner, **given) for inner in expression]
        if not isinstance(expression, str):
            return expression
        if expression.startswith('"') and expression.endswith('"'):
            return self._filled(expression[1:-1], given)
        whole = re.fullmatch(r"\$\{(.*)\}", expression, re.DOTALL)
        return self._evaluated((whole[1] if whole else expression).strip(), given)

    def _filled(self, text: str, given: Mapping[str, Any]) -> str:
        return _TEMPLATE.sub(lambda found: str(self._evaluated(found[1].strip(), given)), text)

    def _evaluated(self, text: str, given: Mapping[str, Any]) -> Any:
        if found := re.fullmatch(r"(.+?) \? (.+?) : (.+)", text):
            return self._evaluated(found[2] if self._evaluated(found[1], given) else found[3], given)
        if found := re.fullmatch(r'join\("(.*)", (.+)\)', text):
            return found[1].join(self._evaluated(found[2], given))
        if text.startswith('"'):
            return self._filled(text[1:-1], given)
        if (known := text.replace(".", "_")) in given:
            return given[known]
        kind, _, name = text.partition(".")
        if kind == "local":
            return self.value(self.locals[name], **given)
        if kind == "var":
            return self.value(self.variables[name]["default"], **given)
        raise LookupError(f"what is {text}?")


def read(folder: Path) -> Configuration:
    """What a folder's files say."""
    found = Configuration({}, {}, {}, {}, {}, "\n".join(file.read_text() for file in sorted(folder.glob("*.tf"))))
    document = hcl2.loads(found.text)
    for block in document.get("locals", []):
        found.locals.update(_own(block))
    for kind, into in (("variable", found.variables), ("output", found.outputs), ("module", found.modules)):
        for block in document.get(kind, []):
            into.update({_plain(name): body for name, body in _own(block)})
    for kind, prefix in (("resource", ""), ("data", "data.")):
        for block in document.get(kind, []):
            for type_, named in _own(block):
                for name, body in _own(named):
                    found.resources[f"{prefix}{_plain(type_)}.{_plain(name)}"] = body
    return found


def references(value: Any) -> Iterator[str]:
    """Every `var.x`, `local.x`, `data.type.name`, `type.name` and `module.name` within."""
    if isinstance(value, dict):
        for name, inner in _own(value):
            yield from references(inner) if name != "validation" else _names_in(str(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)
    elif isinstance(value, str):
        yield from _names_in(value)


def _names_in(expression: str) -> Iterator[str]:
    bound = set(re.findall(r"for (\w+)(?:, (\w+))? in", expression))
    loop = {name for pair in bound for name in pair if name}
    for name in _REFERENCE.findall(_STRING.sub('""', expression)):
        head, *rest = name.split(".")
        if head in _LOCAL_NAMES or head in loop or head in ("setting", "parameter", "access_logs", "statement"):
            continue
        yield ".".join(name.split(".")[: 3 if head == "data" else 2]) if rest else name


def programs(configuration: Configuration, **given: Any) -> Iterator[Program]:
    """The containers of ours: their command, environment and secrets."""
    entry = tuple(image().only("ENTRYPOINT").words)
    for role in ("gateway", "dispatcher"):
        container = configuration.locals[f"{role}_container"]
        assert container["environment"] == "${[for name, value in local.environment : {name = name, value = value}]}"
        assert container["secrets"] == "${[for name, arn in local.secrets : {name = name, valueFrom = arn}]}"
        check = configuration.value(container["healthCheck"]["command"])
        assert check[0] == "CMD"
        ports = [each["containerPort"] for each in container.get("portMappings", [])]
        yield Program(
            "terraform",
            (*entry, *configuration.value(container["command"])),
            environment(configuration, **given),
            tuple(check[1:]),
            tuple(configuration.value(ports)),
            "SIGTERM",  # ECS sends the image's STOPSIGNAL
            configuration.value(container["stopTimeout"]),
        )


def environment(configuration: Configuration, **given: Any) -> dict[str, str]:
    """What a container gets: variables, and the values of the secrets that the module makes."""
    assert configuration.locals["environment"] == "${merge(local.own_environment, var.environment)}"
    assert configuration.locals["secrets"] == "${merge(local.own_secrets, var.secrets)}"
    found: dict[str, str] = configuration.value(configuration.locals["own_environment"], **given)
    for name, arn in _own(configuration.locals["own_secrets"]):
        secret = re.fullmatch(r"\$\{aws_secretsmanager_secret\.(\w+)\.arn\}", arn)
        assert secret is not None, arn
        version = configuration.resources[f"aws_secretsmanager_secret_version.{secret[1]}"]
        assert version["secret_id"] == f"${{aws_secretsmanager_secret.{secret[1]}.id}}"
        found[name] = configuration.value(version["secret_string"], **given)
    return {name: text for name, text in found.items() if text}


def _own(block: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Less what the parser adds."""
    yield from ((name, value) for name, value in block.items() if not name.startswith("__"))


def _plain(name: str) -> str:
    return name.strip('"')
