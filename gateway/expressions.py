"""JMESPath over a delivery: checked down to the names at start-up, and harmless when evaluated.

An expression sees `{headers, query, body, form}`. A misspelt name in it would only ever be null and its route would
silently never match, so names and functions are checked when it is compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jmespath
from jmespath.exceptions import JMESPathError, JMESPathTypeError, LexerError, ParseError
from jmespath.functions import Functions
from jmespath.lexer import Lexer
from jmespath.parser import ParsedResult

from gateway.errors import ConfigError

if TYPE_CHECKING:
    from jmespath.visitor import _TreeNode as Node

Expression = ParsedResult
"""A compiled expression."""

ROOTS = ("headers", "query", "body", "form")
MAX_LENGTH = 4096

_ONLY_FIRST_SEES_ROOT = frozenset(
    ("subexpression", "index_expression", "projection", "value_projection", "filter_projection", "flatten", "pipe")
)
_NEVER_SEES_ROOT = frozenset(("expref", "slice"))
_EVALUATION_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What JMESPath lets through beside its own errors: `'a' < 1` is a TypeError, `ceil()` of infinity an OverflowError."""

_SYNTAX_HINTS = {"-": '; a name with a dash is quoted, as in headers."x-github-event"', "=": "; equality is =="}
"""By the character at which the parser stops."""


class EvaluationFailed(ValueError):
    """An expression that is not defined on this delivery; its text holds no value of the delivery."""


def compile_expression(place: str, text: str, *, roots: Collection[str] = ROOTS) -> Expression:
    """The compiled expression over `roots`; ConfigError names the place, the column (from 1) and the mend."""
    if len(text) > MAX_LENGTH:
        raise ConfigError(place, f"an expression has at most {MAX_LENGTH} characters, this one {len(text)}")
    try:
        text.encode()
        expression = jmespath.compile(text)
        problem = next(_problems(expression.parsed, roots), None)
    except JMESPathError as exc:
        raise ConfigError(place, _syntax_detail(exc, text)) from exc
    except UnicodeEncodeError as exc:
        raise ConfigError(place, f"column {exc.start + 1}: a lone surrogate is not text") from exc
    except RecursionError as exc:
        raise ConfigError(place, "nested too deep for a JMESPath expression") from exc
    if problem is not None:
        name, detail = problem
        raise ConfigError(place, f"column {_column(text, name)}: {detail} in {text!r}")
    return expression


def roots_used(expression: Expression) -> frozenset[str]:
    """Which of the roots an expression may look at; all of them where it looks at the root as a whole."""
    kinds = set(_walk(expression.parsed))
    if {"current", "value_projection"} & {kind for kind, _ in kinds} or expression.parsed["type"] == "identity":
        return frozenset(ROOTS)
    return frozenset(ROOTS) & {str(value) for kind, value in kinds if kind == "field"}


def _walk(node: Node) -> Iterator[tuple[str, Any]]:
    yield node["type"], node["value"] if node["type"] == "field" else None
    for child in node["children"]:
        if isinstance(child, dict):
            yield from _walk(child)


def evaluate(expression: Expression, facts: Mapping[str, Any]) -> Any:
    """The expression's value; EvaluationFailed where it has none, such as a function on a value of a wrong type."""
    try:
        return expression.search(facts)
    except JMESPathTypeError as exc:
        expected = " or ".join(exc.expected_types)
        raise EvaluationFailed(f"function {exc.function_name}() takes {expected}, and got {exc.actual_type}") from exc
    except _EVALUATION_ERRORS as exc:
        raise EvaluationFailed(f"{type(exc).__name__} in {expression.expression!r}") from exc


def is_true(value: Any) -> bool:
    """JMESPath's truth: everything but null, false, `""`, `[]` and `{}`; so 0 is true."""
    return value is not None and value is not False and not (isinstance(value, (str, list, dict)) and not value)


def _syntax_detail(exc: JMESPathError, text: str) -> str:
    """One line out of the library's three, with the column and what stands there."""
    if not text.strip():
        return "the expression is empty; leave it out or write one"
    if not isinstance(exc, ParseError):
        return f"{exc} in {text!r}"
    at = min(exc.lex_position, len(text))
    near = f"near {text[at : at + 20]!r}" if text[at:] else "at its end"
    said = exc.message if isinstance(exc, LexerError) else exc.msg
    hint = _SYNTAX_HINTS.get(text[at : at + 1], "")
    return f"column {at + 1}: {said}, {near} of {text!r}{hint}"


def _problems(node: Node, roots: Collection[str]) -> Iterator[tuple[str, str]]:
    """Names that can never be found: (name, what is wrong), in the order of the text; no `roots` below the root."""
    kind, children = node["type"], [child for child in node["children"] if isinstance(child, dict)]
    if kind == "function_expression":
        yield from _call_problems(node["value"], arguments=len(children))
    if kind == "field" and roots and node["value"] not in roots:
        yield node["value"], f"no {node['value']!r} here, only {', '.join(roots)}; a string stands in single quotes"
    if kind == "subexpression" and children[0]["type"] == "not_expression":
        yield "!", "! takes only the first name; write !(a.b) for what is meant by !a.b,"
    if kind == "subexpression" and roots:
        yield from _header_problems(children)
    for index, child in enumerate(children):
        inside = kind in _NEVER_SEES_ROOT or (kind in _ONLY_FIRST_SEES_ROOT and index > 0)
        yield from _problems(child, () if inside else roots)


def _call_problems(name: str, *, arguments: int) -> Iterator[tuple[str, str]]:
    spec = Functions.FUNCTION_TABLE.get(name)
    if spec is None:
        known = ", ".join(sorted(Functions.FUNCTION_TABLE))
        yield name, f"no function named {name!r}; known: {known}"
        return
    signature = spec["signature"]
    variadic = bool(signature) and bool(signature[-1].get("variadic"))
    if arguments < len(signature) or (arguments > len(signature) and not variadic):
        least = "at least " if variadic else ""
        yield name, f"{name}() takes {least}{len(signature)} arguments, not {arguments},"


def _header_problems(children: list[Node]) -> Iterator[tuple[str, str]]:
    """Header names are in lower case in `headers`, whatever the sender wrote."""
    if [child["type"] for child in children[:2]] != ["field", "field"] or children[0]["value"] != "headers":
        return
    name = children[1]["value"]
    if name != name.lower():
        yield name, f"header names are in lower case here: {name.lower()!r}"


def _column(text: str, name: str) -> int:
    """Where a name (or `!`) first stands as such, from 1."""
    tokens = (token for token in Lexer().tokenize(text) if token["type"] not in ("literal", "number"))
    return next(token["start"] + 1 for token in tokens if token["value"] == name)
