"""What is traced, what is refused and why, and what makes a traced function run record by record later."""

from typing import Any

import pytest

from funken import MapFunction
from funken.columnar.expressions import Argument, Constant, Make, NotVectorizable
from funken.columnar.inference import schema_of
from funken.columnar.tracing import trace

LIMIT = 5
THINGS = [1]


class Doubling(MapFunction):
    def map(self, value: Any) -> Any:
        return value * 2


class Scaling(MapFunction):
    factor = 3

    def map(self, value: Any) -> Any:
        return value * self.factor


def unpacking(pair: Any) -> Any:
    name, count = pair
    more = count + 1
    return more, name


def looping(value: Any) -> Any:
    for _ in value:
        return 1
    return 2


def caught(value: Any) -> Any:
    try:
        return 1 // value
    except ZeroDivisionError:
        return 0


def changing(value: Any) -> Any:
    global LIMIT  # noqa: PLW0603 - it is what is refused
    LIMIT = value
    return value


def generating(value: Any) -> Any:
    yield value


def test_a_function_becomes_an_expression() -> None:
    assert trace(lambda pair: (pair[0], 1), None, 1).result == Make((Argument(0, (0,)), Constant(1)))
    assert schema_of(trace(unpacking, None, 1).result, ("str", "int")) == ("int", "str")
    assert schema_of(trace(Doubling(), "map", 1).result, "float") == "float"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: repr((x, x)), "calls repr()"),
        (lambda x: THINGS, "uses the global 'THINGS', a list"),
        (lambda x: x.name, "uses the attribute 'name'"),
        (lambda x: x.upper(), "uses the attribute 'upper'"),
        (lambda x: [x], "makes a list"),
        (lambda x: {"a": x}, "makes a dict"),
        (lambda x: f"{x:>3}", "formats a value"),
        (lambda x: x[1:], "takes a slice"),
        (lambda x: x**2, "uses the operator **"),
        (lambda x: x is None, "compares identities"),
        (lambda x: None, "uses None"),
        (lambda x: x + 1180591620717411303424, "uses 1180591620717411303424, which no column can hold"),
        (looping, "has a loop"),
        (caught, "handles exceptions"),
        (changing, "changes the global 'LIMIT'"),
        (generating, "is a generator"),
        (str.split, "split is no Python function"),
        (lambda x, y: x, "takes 2 arguments, not 1"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_the_reason_of_a_refusal_is_told(function: Any, reason: str) -> None:
    with pytest.raises(NotVectorizable) as refused:
        trace(function, None, 1)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("function", "shape", "reason"),
    [
        (lambda x: x % 2.0, "float", "computes float % float"),
        (lambda x: x + 1, "str", "computes str + int"),
        (lambda x: x + x, "bool", "computes bool + bool"),
        (lambda x: x[5], ("int", "int"), "takes item 5 of (int, int)"),
        (lambda x: x[0], "str", "takes an item of str"),
        (lambda x: 1 if x else "a", "int", "gives sometimes int and sometimes str"),
        (lambda x: f"{x}", "float", "makes text of float"),
        (lambda x: (x,) and 1, "int", "asks whether a tuple is true"),
        (unpacking, ("int", "int", "int"), "unpacks 2 values from (int, int, int)"),
    ],
    ids=["remainder", "mixed", "bools", "outside", "letter", "types", "text", "truth", "unpack"],
)
def test_types_without_a_kernel_are_refused(function: Any, shape: Any, reason: str) -> None:
    with pytest.raises(NotVectorizable) as refused:
        schema_of(trace(function, None, 1).result, shape)
    assert reason in str(refused.value)


def test_a_method_that_uses_its_object_is_refused() -> None:
    with pytest.raises(NotVectorizable) as refused:
        trace(Scaling(), "map", 1)
    assert str(refused.value) == "uses self.factor"


def test_a_constant_that_changes_is_noticed() -> None:
    space: dict[str, Any] = {"limit": 5}
    function = eval("lambda x: x + limit", space)
    traced = trace(function, None, 1)
    assert traced.holds(function)
    space["limit"] = 6
    assert not traced.holds(function)
    space["limit"] = 5.0
    assert not traced.holds(function)


def test_a_variable_of_an_enclosing_function_that_changes_is_noticed() -> None:
    limit = 5
    function = lambda x: x + limit  # noqa: E731
    traced = trace(function, None, 1)
    assert traced.holds(function)
    limit = 6
    assert not traced.holds(function)


def test_a_builtin_that_is_hidden_is_noticed() -> None:
    space: dict[str, Any] = {}
    function = eval("lambda x: abs(x)", space)
    traced = trace(function, None, 1)
    assert traced.holds(function)
    space["abs"] = str
    assert not traced.holds(function)


def test_a_method_replaced_on_the_object_is_noticed() -> None:
    doubling = Doubling()
    traced = trace(doubling, "map", 1)
    assert traced.holds(doubling, "map")
    doubling.map = lambda value: value  # type: ignore[method-assign]
    assert not traced.holds(doubling, "map")
