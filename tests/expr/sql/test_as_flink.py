"""Values and types that Flink gives, of constants and of columns: a block at a time and row by row."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from funken.errors import FunkenError
from funken.expr.evaluate import EvaluationContext, evaluate
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.types import STRING, parse_type
from funken.expr.sql.values import from_internal
from funken.table.catalog import CatalogManager
from funken.table.constants import fold
from funken.table.sql.binder import Binder

COLUMNS = {
    "s": ("STRING", ["Hello World", "", None, "a,b,c"]),
    "c": ("STRING", ["o", ",", "x", ""]),
    "c5": ("CHAR(5)", ["abc  ", "zz   ", None, "x y  "]),
    "i": ("INT", [1, -7, None, 3]),
    "f": ("FLOAT", [1.5, -0.0, None, 1e10]),
    "d": ("DOUBLE", [1e7, float("nan"), None, 0.1]),
    "b": ("BOOLEAN", [True, False, None, True]),
    "day": ("STRING", ["2021-3-4", "2021-03-04 12:00:00", None, "2021-01"]),
    "at": ("STRING", ["2021-03-04 12:34:56.789", "2021-03-04", None, "2021-03-04T12:34:56"]),
    "wide": (
        "DECIMAL(38, 18)",
        [Decimal("12345678901234567890.123456789012345678"), Decimal("-1.5"), None, Decimal(0)],
    ),
    "sa": ("ARRAY<STRING>", [["a", "b"], [], None, [None]]),
    "m": ("MAP<STRING, INT>", [[("a", 1)], [], None, [("b", None)]]),
}
TYPES = {name: parse_type(type_) for name, (type_, _) in COLUMNS.items()}

CONSTANTS = [
    ("(TIMESTAMP '2021-03-05 00:00:00' - TIMESTAMP '2021-03-04 12:00:00') DAY TO SECOND", None, "+0 12:00:00.000"),
    ("(TIMESTAMP '2021-03-04 00:00:02' - TIMESTAMP '2021-03-04 00:00:01.1234') DAY", None, "+0 00:00:00.877"),
    ("(DATE '2021-03-05' - DATE '2020-01-01') MONTH", None, "+1-02"),
    ("DATE '2021-03-04' + INTERVAL '10' HOUR", "DATE NOT NULL", "2021-03-04"),
    (".5", "DECIMAL(1, 1) NOT NULL", "0.5"),
    ("1.", "INT NOT NULL", "1"),
    ("-2147483648", "INT NOT NULL", "-2147483648"),
    ("-9223372036854775808", "BIGINT NOT NULL", "-9223372036854775808"),
    ("-0E0", "DOUBLE NOT NULL", "0.0"),
    ("ROUND(.5)", "DECIMAL(1, 0) NOT NULL", "1"),
    ("OVERLAY('AbC123' PLACING 'Hello World' FROM 2 FOR 0)", None, "AHello World"),
    ("INITCAP('ä€x')", None, "ä€X"),
    ("REGEXP('hello', '(')", "BOOLEAN NOT NULL", "FALSE"),
    ("REGEXP_EXTRACT('abc', '[[:alpha:]]')", "STRING", "a"),
    ("PRINTF('%.2f', 0.5)", "STRING", "NULL"),
    ("PRINTF('%s', CAST(0.1 AS FLOAT))", "STRING", "0.1"),
    ("PRINTF('%.2f', ARRAY[1])", "STRING", "NULL"),
    ("DECODE(X'FF00', 'UTF-16')", "STRING NOT NULL", "\uff00"),
    ("CONVERT_TZ('2021-03-04 12:00:00', 'Europe/Berlin', 'Nowhere')", "STRING", "2021-03-04 11:00:00"),
    ("TO_TIMESTAMP('2021-10-31 02:30:00', 'yyyy-MM-dd')", "TIMESTAMP(3)", "2021-10-31 02:30:00.000"),
    ("TO_TIMESTAMP_LTZ(255, 5)", "TIMESTAMP_LTZ(5)", "1970-01-01 00:00:00.00255"),
    ("TO_TIMESTAMP_LTZ(3.14159, 0)", "TIMESTAMP_LTZ(3)", "1970-01-01 00:00:03.000"),
    ("U&'>#263A##<' UESCAPE '#'", None, ">\u263a#<"),
    ("ARRAY_APPEND(ARRAY['a'], 'xyz')", "ARRAY<CHAR(1) NOT NULL> NOT NULL", "[a, x]"),
    ("ARRAY_APPEND(ARRAY[1.5], 7)", "ARRAY<DECIMAL(2, 1) NOT NULL> NOT NULL", "[1.5, 7.0]"),
    ("ARRAY_APPEND(ARRAY[DATE '2021-03-04'], TIMESTAMP '2021-03-05 06:07:08')", None, "[2021-03-04, 2021-03-05]"),
    ("TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '1.5' SECOND", "TIMESTAMP(0) NOT NULL", "2020-01-01 00:00:01"),
    ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2024-03-31 12:00:00', TIMESTAMP '2024-02-29 13:00:00')", None, "-1"),
    ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2024-03-29 12:00:00', TIMESTAMP '2024-02-29 13:00:00')", None, "-1"),
    ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2024-03-29 12:00:00', TIMESTAMP '2024-02-29 11:00:00')", None, "-2"),
    ("TIMESTAMPDIFF(QUARTER, TIMESTAMP '2024-02-29 00:00:00', TIMESTAMP '2002-02-28 23:59:59')", None, "-88"),
    ("MAP['a', 1]['abc']", "INT", "NULL"),  # no key is cut
    ("MAP['abc', 1]['a']", "INT", "NULL"),
    ("MAP[CAST(1 AS TINYINT), 2][257]", "INT", "NULL"),
    ("STR_TO_MAP('ab', '', '')", None, "{a=, b=}"),
    ("IF(CAST(NULL AS BOOLEAN), 7, 3)", "INT", "3"),
    ("DATE '2021-03-04' - INTERVAL '30' MINUTE", "DATE NOT NULL", "2021-03-04"),
    ("DATE '2021-03-04' - INTERVAL '25' HOUR", "DATE NOT NULL", "2021-03-03"),
    ("ASCII('\u00e9')", "INT NOT NULL", "-61"),
    ("INSTR('foo', 'o', 0)", "INT NOT NULL", "0"),
    (
        "PRINTF('%h %x %o', CAST(-128 AS TINYINT), CAST(-128 AS TINYINT), CAST(-1 AS BIGINT))",
        None,
        "ffffff80 80 1" + "7" * 21,
    ),
    ("FROM_UNIXTIME(0, 'u')", None, "4"),
    ("DATE_FORMAT(TIMESTAMP '2021-01-03 05:06:07', 'YYYYww YY e')", None, "202102 21 1"),
    ("DATE_FORMAT(TIMESTAMP '2020-12-31 05:06:07', 'YYYY w W F g')", None, "2021 1 5 3 59214"),
    ("DATE_FORMAT(TIMESTAMP '2020-12-26 12:00:00', 'Y-ww c ccc ee eee')", None, "2020-52 7 Sat 07 Sat"),
    ("DATE_FORMAT(TIMESTAMP '2021-08-14 15:06:07', 'QQQ QQQQ G GGGG')", None, "Q3 3rd quarter AD Anno Domini"),
    ("DATE_FORMAT(TIMESTAMP '2021-08-14 15:06:07', 'h B')", None, "3 in the afternoon"),
    ("TO_TIMESTAMP('2021-33', 'YYYY-ww')", None, "1970-01-01 00:00:00.000"),
    ("FROM_UNIXTIME(1609650367, 'YYYY-ww u W F')", None, "2021-02 7 2 1"),
    ("JSON_STRING(TIMESTAMP '2021-03-04 12:34:56.500')", None, '"2021-03-04T12:34:56.5"'),
    ("JSON_STRING(CAST('2021-03-04 12:34:56' AS TIMESTAMP_LTZ(3)))", None, '"2021-03-04T12:34:56Z"'),
    ("JSON_EXISTS('{\"a\": 1}', '$[*].b')", None, "TRUE"),
    ("JSON_EXISTS('{\"a\": 1}', '$.b[*]')", None, "FALSE"),
    ("ARRAY_APPEND(ARRAY[1], CAST(NULL AS INT))", "ARRAY<INT>", "[1, NULL]"),
    ("TRY_CAST('2021-03-04T12:34:56' AS TIMESTAMP(3))", "TIMESTAMP(3)", "NULL"),
    ("TRY_CAST('2021-03-04T12:34:56' AS DATE)", "DATE", "NULL"),
    ("JSON_ARRAY(JSON_OBJECT('k' VALUE JSON_ARRAY(1, 'a')), JSON('[2]'))", None, '[{"k":[1,"a"]},[2]]'),
    ("JSON_OBJECT('k' VALUE 1E7)", None, '{"k":1.0E+7}'),
]
OF_COLUMNS = [
    ("CAST(f AS STRING)", "STRING", ["1.5", "-0.0", "NULL", "1.0E10"]),
    ("JSON_STRING(f)", "STRING", ["1.5", "0.0", "NULL", "1.0E+10"]),
    ("JSON_STRING(d)", "STRING", ["1.0E+7", '"NaN"', "NULL", "0.1"]),
    ("INSTR(s, c, -5)", "INT", ["5", "0", "NULL", "6"]),
    ("INSTR('abc', 'b', -5)", "INT NOT NULL", ["0", "0", "0", "0"]),
    ("LOCATE(c, c5, 3)", "INT", ["0", "0", "NULL", "1"]),
    ("SPLIT(s, ',')", "ARRAY<STRING>", ["[Hello World]", "[]", "NULL", "[a, b, c]"]),
    ("SPLIT_INDEX(s, '', 1)", "STRING", ["World", "NULL", "NULL", "NULL"]),
    ("TO_DATE(day, 'yyyy-MM-dd')", "DATE", ["2021-03-04", "2021-03-04", "NULL", "NULL"]),
    ("TO_DATE(day, 'yyyy')", "DATE", ["2021-01-01", "2021-01-01", "NULL", "2021-01-01"]),
    ("TO_TIMESTAMP(at)", "TIMESTAMP(3)", ["2021-03-04 12:34:56.789", "2021-03-04 00:00:00.000", "NULL", "NULL"]),
    ("UNIX_TIMESTAMP(at)", "BIGINT", ["1614861296", str(-(2**63)), "NULL", str(-(2**63))]),
    ("CONVERT_TZ(at, 'UTC', 'GMT+05:30')", "STRING", ["2021-03-04 18:04:56", "NULL", "NULL", "NULL"]),
    ("CONVERT_TZ(at, 'PST', 'UTC+1')", "STRING", ["2021-03-04 20:34:56", "NULL", "NULL", "NULL"]),
    ("TRANSLATE('true', s, 'x')", "STRING NOT NULL", ["tu", "true", "true", "true"]),
    ("LOWER('\u0130' || s)", "STRING", ["i\u0307hello world", "i\u0307", "NULL", "i\u0307a,b,c"]),
    (
        "ABS(-wide)",
        "DECIMAL(38, 18)",
        ["12345678901234567890.123456789012345678", "1.500000000000000000", "NULL", "0.000000000000000000"],
    ),
    (
        "CAST(TO_TIMESTAMP(at) AS TIMESTAMP(0)) + INTERVAL '1.5' SECOND",
        "TIMESTAMP(0)",
        ["2021-03-04 12:34:57", "2021-03-04 00:00:01", "NULL", "NULL"],
    ),
    ("MAP_ENTRIES(m)", "ARRAY<ROW<`key` STRING, `value` INT>>", ["[(a, 1)]", "[]", "NULL", "[(b, NULL)]"]),
    ("f + d", "FLOAT", ["1.0000002E7", "NaN", "NULL", "1.0E10"]),
    ("d + f", "DOUBLE", ["1.00000015E7", "NaN", "NULL", "1.00000000001E10"]),
    ("CASE WHEN b THEN f ELSE d END", "FLOAT", ["1.5", "NaN", "NULL", "1.0E10"]),
    ("ARRAY[f, d]", "ARRAY<FLOAT> NOT NULL", ["[1.5, 1.0E7]", "[-0.0, NaN]", "[NULL, NULL]", "[1.0E10, 0.1]"]),
    ("COALESCE(f, d)", "DOUBLE", ["1.5", "-0.0", "NULL", "1.0E10"]),
    ("IS_DIGIT(i)", "BOOLEAN NOT NULL", ["TRUE"] * 4),
    ("IS_DECIMAL(s)", "BOOLEAN NOT NULL", ["FALSE"] * 4),
    ("sa = ARRAY[CAST(NULL AS STRING)]", "BOOLEAN", ["FALSE", "FALSE", "NULL", "FALSE"]),
    ("DATE_FORMAT(at, 'yyyy')", "STRING", ["2021", "NULL", "NULL", "NULL"]),
    ("IF(b, 1, 2)", "INT", ["1", "2", "2", "1"]),
]
REFUSED = [
    ("ARRAY_APPEND(ARRAY[1], CAST(1 AS BIGINT))", "Invalid input arguments"),
    ("ARRAY_PREPEND(ARRAY[1], 1.5)", "Invalid input arguments"),
    ("ARRAY_APPEND(ARRAY['x'], s)", "Invalid input arguments"),  # a STRING is no CHAR(1) without a cast
    ("ARRAY_CONTAINS(ARRAY['a', 'y'], s)", "Invalid input arguments"),
    ("ARRAY_POSITION(ARRAY['a', 'y'], s)", "Invalid input arguments"),
    ("ARRAY_REMOVE(ARRAY[c5], s)", "Invalid input arguments"),
    ("ARRAY_APPEND(ARRAY[CAST(X'01' AS BINARY(2))], CAST(X'0102' AS BYTES))", "Invalid input arguments"),
    ("ARRAY_APPEND(ARRAY[ARRAY[1]], ARRAY[CAST(1 AS BIGINT)])", "Invalid input arguments"),
    ("MAP[1, 'x'][1.0]", "Map keys are of INT"),
    ("IS_DIGIT(b)", "Invalid"),
    ("ELEMENT(NULL)", "Invalid"),
    ("ARRAY_MIN(NULL)", "Invalid"),
    ("TO_DATE(day) BETWEEN INTERVAL '1' MONTH AND TO_DATE(day)", "Cannot apply"),
]
FAILING = [
    ("TIMESTAMPADD(DAY, 2147483647, TO_DATE(day))", "a DATE is outside of the years"),
    (
        "TIMESTAMPADD(DAY, 2147483647, CAST(TO_DATE(day) AS TIMESTAMP(6)))",
        "a TIMESTAMP.6. is outside of the years -290,000",
    ),
    ("INSTR('foo', 'o', 1, 0)", "occurrences"),
    ("FROM_BASE64('a:b')", "base 64"),
    ("DATE_FORMAT(TIMESTAMP '2021-08-14 15:06:07', 'HHH')", "Too many pattern letters 'H'"),
    ("DATE_FORMAT(TIMESTAMP '2021-08-14 15:06:07', 'WW')", "Too many pattern letters 'W'"),
    ("FROM_UNIXTIME(0, 'VV')", "Illegal pattern character 'V'"),
]


def column(values, type_):
    """Return a column of values of SQL."""
    return from_internal(values, type_)


def texts(node, batch):
    """Return the texts of an expression's values."""
    context = EvaluationContext(FUNCTIONS, "UTC", lambda: 0)
    (found,) = evaluate([FUNCTIONS.call("CAST", [node], type=STRING)], batch, context)
    return ["NULL" if each is None else each for each in found.to_pylist()]


def block(places):
    """Return a batch of some of the rows of the table."""
    arrays = [column([values[place] for place in places], TYPES[name]) for name, (_, values) in COLUMNS.items()]
    return pa.RecordBatch.from_arrays(arrays, list(COLUMNS))


def bound(sql):
    """Return a typed expression over the table."""
    return Binder(CatalogManager()).expression(sql, list(TYPES.items()))


@pytest.mark.parametrize(("sql", "type_", "text"), CONSTANTS, ids=[sql for sql, _, _ in CONSTANTS])
def test_a_constant(sql, type_, text):
    node = bound(sql)

    assert texts(node, block([0])) == [text]
    assert texts(fold(node, "UTC"), block([0])) == [text]  # as while a statement is planned
    assert type_ is None or str(node.type) == type_


@pytest.mark.parametrize(("sql", "type_", "wanted"), OF_COLUMNS, ids=[sql for sql, _, _ in OF_COLUMNS])
def test_columns(sql, type_, wanted):
    node = bound(sql)

    assert str(node.type) == type_
    assert texts(node, block(range(4))) == wanted
    assert [texts(node, block([place]))[0] for place in range(4)] == wanted
    assert texts(node, block([*range(4)] * 40)) == wanted * 40


@pytest.mark.parametrize(("sql", "message"), REFUSED, ids=[sql for sql, _ in REFUSED])
def test_what_is_refused(sql, message):
    with pytest.raises(FunkenError, match=message):
        bound(sql)


@pytest.mark.parametrize(("sql", "message"), FAILING, ids=[sql for sql, _ in FAILING])
def test_what_fails(sql, message):
    with pytest.raises(FunkenError, match=message):
        texts(bound(sql), block([0]))
