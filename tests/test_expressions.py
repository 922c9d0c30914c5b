from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import ConfigError
from gateway.expressions import EvaluationFailed, compile_expression, evaluate, is_true

PLACE = "gateway.toml: triggers.github.routes[0].when"


@pytest.mark.parametrize(
    "text",
    [
        "headers.\"x-github-event\" == 'push'",
        "body",
        "@",
        "*.ref",
        "[headers, query][0].x",
        "{repo: body.repository.full_name, sha: body.after}",
        "body.commits[?author.name == 'x'].id | [0]",
        "body.items[*].headers.Upper",
        "body.commits[1:3].{id: id, by: author.name}",
        "length(body.commits) > `1` && !contains(keys(query), 'skip')",
        "sort_by(body.items, &created)[-1].id",
        "not_null(body.a, body.b, 'c')",
        "max_by(body.x, &to_number(y)).z",
        'body.headers."X-Upper"',
        "(body.a || query.a) | length(@)",
        "!(body.draft) && !body",
    ],
)
def test_good_expression_compiles(text: str) -> None:
    compile_expression(PLACE, text)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("headers.x-github-event == 'push'", 'column 10: .*headers."x-github-event"'),
        ("body.ref = 'x'", "column 10: .*equality is =="),
        ("body.ref == ", "column 13: .*at its end"),
        ("body.[", "column 7"),
        ("body ref", "column 6"),
        ("body.a == 'x", "column 11"),
        ('headers."x-github-event" == "push"', "column 29: no 'push' here, .*single quotes"),
        ("header.x == 'y'", "column 1: no 'header' here"),
        ("body.ok && ref == 'x'", "column 12: no 'ref' here"),
        ("{a: body.a, b: after}", "column 16: no 'after' here"),
        ("length(commits)", "column 8: no 'commits' here"),
        ("commits[?id == 'x']", "column 1: no 'commits' here"),
        ("headers.\"X-GitHub-Event\" == 'push'", "column 9: .*'x-github-event'"),
        ("'lenght' == 'x' || lenght(body.a)", "column 20: no function named 'lenght'; known: .*length"),
        ("body.a[?starts_with(@)]", "column 9: .*takes 2 arguments, not 1"),
        ("length(body.a, body.b)", "takes 1 arguments, not 2"),
        ("body.a == '!' || !body.draft", r"column 18: .*write !\(a\.b\)"),
        ("not_null()", "at least 1 arguments, not 0"),
        ("(" * 3000 + "body" + ")" * 1000, "."),
        ("(" * 2000 + "body" + ")" * 2000, "nested too deep"),
        ("b" * 5000, "at most 4096"),
        ("body.\ud800", "column 6"),
        ("é", "column 1"),
    ],
)
def test_bad_expression_is_refused_with_its_place_and_column(text: str, detail: str) -> None:
    with pytest.raises(ConfigError, match=detail) as caught:
        compile_expression(PLACE, text)
    assert caught.value.place == PLACE
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "length(body.number)",
        "body.text < body.number",
        "ceil(to_number('1e999'))",
        "body.list[::0]",
        "contains(body.text, body.number)",
        "sort(body.mixed)",
        "sort_by(body.mixed, &@)",
        "sum(body.mixed)",
        "join(',', body.mixed)",
        "merge(body, body.text)",
        "keys(body.list)",
    ],
)
def test_expression_that_is_not_defined_on_the_values_fails_as_one_error(text: str) -> None:
    body = {"number": 5, "text": "a secret text", "list": [1], "mixed": [1, "a secret text", None]}
    with pytest.raises(EvaluationFailed) as caught:
        evaluate(compile_expression(PLACE, text), {"headers": {}, "query": {}, "body": body})
    assert "a secret text" not in str(caught.value)


def test_failure_names_the_function_and_the_types() -> None:
    with pytest.raises(EvaluationFailed, match=r"function length\(\) takes string or array or object, and got null"):
        evaluate(compile_expression(PLACE, "length(body.x)"), {"headers": {}, "query": {}, "body": None})


@pytest.mark.parametrize("value", ["", [], {}, None, False])
def test_empty_values_are_false(value: Any) -> None:
    assert not is_true(value)


@pytest.mark.parametrize("value", [0, 0.0, "0", [None], {"a": None}, True])
def test_other_values_are_true_even_zero(value: Any) -> None:
    assert is_true(value)
