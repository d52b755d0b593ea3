"""Each row of the table of operations, as a program writes it: columns give what Python gives, or leave it to Python."""

from __future__ import annotations

import datetime as dates
import decimal
import functools
import importlib
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import FallBackToRows, computed
from funken.columnar.tracing import trace
from funken.expr.python.table import (
    BYTES,
    DATE,
    DATETIME,
    DECIMAL,
    HASH,
    TABLE,
    TIMEDELTA,
    OperationRule,
    OperationTable,
)
from funken.expr.types import BOOL, FLOAT, INT, STR, ListOf, Tuple, Type, optional
from tests.support.operations import Case, cases, page, signatures, written_rows

ROWS = written_rows()
_TEXTS = [
    "", "a", "ab,ba", " a\t", "é", "ÀÉ", "ß", "\U0001f600a", "12", "-7", "007", "1.5", "1e400", "nan", "٣", "2024-02-29", "a=b=c",
    "2024-02-29T12:30:00+00:00", "2024-02-29 12:30:00.5", "12:30:00.25", "\x1c a", "ǆ", "99999999999999999999",
]  # fmt: skip
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    INT: st.one_of(st.integers(-9, 70), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**53 + 1, -(2**63), 10**9])),
    FLOAT: st.one_of(
        st.floats(-100, 100), st.floats(), st.sampled_from([0.0, -0.0, 0.5, 2.5, 2.675, 1e16, 1e308, 5e-324, 9007199254740993.0])
    ),
    BOOL: st.booleans(),
    STR: st.one_of(st.sampled_from(_TEXTS), st.text("aAbB1 ,=é-.", max_size=6), st.text(max_size=4)),
    BYTES: st.one_of(st.binary(max_size=6), st.sampled_from([b"", b"abc", b"aGk=", b"\xff", "é".encode()])),
    DATETIME: st.one_of(st.datetimes(), st.datetimes(timezones=st.just(dates.UTC))),
    DATE: st.dates(),
    TIMEDELTA: st.timedeltas(dates.timedelta(-999), dates.timedelta(999)),
    DECIMAL: st.one_of(st.decimals(-99, 99, places=2), st.sampled_from(list(map(decimal.Decimal, ("NaN", "-0", "1E+9"))))),
}  # fmt: skip
PLAIN: dict[Type, list[Any]] = {
    INT: [1, 2, 7], FLOAT: [0.5, 0.75, 0.25], BOOL: [True, False, True], STR: ["1", "2", "3"], BYTES: [b"aGk=", b"aGk=", b"aGkx"],
    DATETIME: [dates.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dates.UTC)] * 3, DATE: [dates.date(2024, 2, 29)] * 3,
    TIMEDELTA: [dates.timedelta(1, 2, 3)] * 3, DECIMAL: [decimal.Decimal("1.5")] * 3,
}  # fmt: skip


SIZES = st.integers(-3, 70)
"""Ints that say how large a result is."""


def values_of(rule: OperationRule, case: Case, kind: Type) -> st.SearchStrategy[Any]:
    if isinstance(kind, ListOf):
        return st.lists(values_of(rule, case, kind.element), max_size=4)
    if kind == INT and (
        rule.name in ("**", "<<", "range") or (STR in case.types and rule.group in ("text", "operators"))
    ):
        return SIZES
    return st.none() | values_of(rule, case, kind.required) if kind.is_optional else VALUES[kind]


@functools.cache
def traced(source: str, types: tuple[Type, ...], constants: str) -> Any:
    return trace(SPACES[source, constants], None, 1).typed(Tuple(types))


SPACES: dict[tuple[str, str], Any] = {}


def made(case: Case) -> tuple[Any, Any, Any]:
    """Return the function of a case, as it is and as columns compute it, and the type of its results."""
    key = case.source, repr([case.space[name] for name in case.space if name.startswith("K")])
    if key not in SPACES:
        SPACES[key] = eval(case.source, dict(case.space))
    return SPACES[key], *traced(key[0], case.types, key[1])


def compare(case: Case, records: list[Any]) -> bool:
    """Compare columns with Python; return whether columns computed the records."""
    function, expression, result = made(case)
    try:
        expected: list[Any] | None = [function(record) for record in records]
    except Exception:  # noqa: BLE001 - whatever it is, columns may not hide it
        expected = None
    try:
        found = computed(expression.result, result, columns_of(records, Tuple(case.types))).to_list()
    except FallBackToRows:
        return False
    assert expected is not None, f"{case.source}: columns give {found} for {records}, Python raises"
    alike = [(type(each), repr(each)) for each in found] == [(type(each), repr(each)) for each in expected]
    assert alike, f"{case.source}: columns give {found} for {records}, Python {expected}"
    return True


@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: rule.name)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_columns_give_what_python_gives(rule: OperationRule, data: st.DataObject) -> None:
    known = _cases(rule.name)
    case = data.draw(st.sampled_from(known))
    records = data.draw(
        st.lists(st.tuples(*(values_of(rule, case, kind) for kind in case.types)), min_size=1, max_size=6)
    )
    times = data.draw(st.sampled_from([1, 1, 20]))  # streams have many records of one value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(case, [record for record in records for _ in range(times)])


@functools.cache
def _cases(name: str) -> list[Case]:
    return list(cases(TABLE[name]))


@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: rule.name)
def test_every_signature_is_read_and_has_the_type_of_its_row(rule: OperationRule) -> None:
    for case in _cases(rule.name):
        result = made(case)[2]
        shown = {HASH: STR}.get(case.result, BOOL if "is not None" in case.source else case.result)
        assert result == shown, case.source


@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: rule.name)
def test_plain_values_are_computed_on_columns(rule: OperationRule) -> None:
    def plain(kind: Type) -> list[Any]:
        if isinstance(kind, ListOf):
            return [PLAIN[kind.element]] * 3
        return PLAIN[kind.required if kind.is_optional else kind]

    done = [compare(case, list(zip(*map(plain, case.types), strict=True))) for case in _cases(rule.name)]

    assert any(done) or rule.name in ("date.fromisoformat", "datetime.fromisoformat", "datetime.strptime", "math.acosh")


def test_kernels_of_rows_exist() -> None:
    kernels = [each for rule in TABLE for each in (rule.texts, rule.numbers, rule.times, rule.lists) if each]

    for each in kernels:
        module, _, name = each.rpartition(".")
        assert callable(getattr(importlib.import_module(f"funken.columnar.{module}"), name)), each


def test_a_name_is_taken_once_and_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from funken.columnar.kernels import text_forms
    from funken.columnar.kernels.rowwise import kernel_of

    with pytest.raises(ValueError, match="two operations are called abs"):
        OperationTable([TABLE["abs"], TABLE["abs"]])
    kernel_of.cache_clear()
    monkeypatch.setattr(text_forms, "lower", text_forms.upper)
    case = _cases("str.lower")[0]
    with pytest.raises(AssertionError, match="columns give"):
        compare(case, [("a",), ("B",)])
    kernel_of.cache_clear()


def test_every_row_of_the_page_has_types() -> None:
    assert all(signatures(rule) for rule in ROWS)
    assert all(
        f"`{each}`" in page() for each in ("x + y", "x.removeprefix(y)", "math.sqrt(x)", "sorted(set(x))", "x.year")
    )
    assert optional(INT) not in VALUES
