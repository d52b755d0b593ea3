"""What a call that no signature takes says: what was called, where, and what would be taken."""

from __future__ import annotations

import pytest

from funken.expr.sql.types import parse_type
from funken.table.catalog import CatalogManager
from funken.table.sql.binder import Binder
from funken.table.sql.statements import InvalidQuery

COLUMNS = {
    "i": "INT",
    "s": "STRING",
    "f": "FLOAT",
    "d": "DECIMAL(38, 19)",
    "a": "ARRAY<INT>",
    "m": "MAP<STRING, INT>",
    "b": "BITMAP",
}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "BTRIM(i)",
            "Invalid function call:\nBTRIM(INT)\nFrom line 1, column 8 to line 1, column 15: Invalid input arguments. "
            "Expected signatures are:\nBTRIM(str <CHARACTER_STRING>)\n"
            "BTRIM(str <CHARACTER_STRING>, trimStr <CHARACTER_STRING>)",
        ),
        (
            "ARRAY_APPEND(a, s)",
            "Expected signatures are:\nARRAY_APPEND(array <ARRAY>, element <ARRAY ELEMENT>)",
        ),
        (
            "ARRAY_MIN()",
            "From line 1, column 8 to line 1, column 18: No match found for function signature ARRAY_MIN().\n"
            "Supported signatures are:\nARRAY_MIN(<ARRAY>)",
        ),
        ("ARRAY_MIN(a, a)", "No match found for function signature ARRAY_MIN(<INTEGER ARRAY>, <INTEGER ARRAY>)."),
        (
            "BIN(f)",
            "From line 1, column 8 to line 1, column 13: Cannot apply 'BIN' to arguments of type 'BIN(<FLOAT>)'. "
            "Supported form(s): 'BIN(<INTEGER>)'",
        ),
        (
            "TRUNCATE(f, d)",
            "'TRUNCATE(<FLOAT>, <DECIMAL(38, 19)>)'. Supported form(s): 'TRUNCATE(<NUMERIC>, <INTEGER>)'\n"
            "'TRUNCATE(<NUMERIC>)'",
        ),
        (
            "a <> m",
            "Cannot apply '<>' to arguments of type '<INTEGER ARRAY> <> <(VARCHAR(2147483647), INTEGER) MAP>'. "
            "Supported form(s): '<COMPARABLE_TYPE> <> <COMPARABLE_TYPE>'",
        ),
        ("STR_TO_MAP(s, s)", "Invalid number of arguments to function 'STR_TO_MAP'. Was expecting 1 arguments"),
        ("CAST(b AS BIGINT)", "Invalid function call:\ncast(BITMAP, BIGINT)\nFrom line 1"),
        ("LEAST(i, s)", "Invalid function call:\nLEAST(INT, STRING)"),
        ("TO_TIMESTAMP_LTZ(s, 'r')", "Invalid pattern for parsing TIMESTAMP_LTZ: Unknown pattern letter: r"),
        ("TO_TIMESTAMP_LTZ(s, 'yyyy', 'no zone')", "Invalid ID for region-based ZoneId, invalid format: no zone"),
        ("TO_TIMESTAMP_LTZ(s, NULL)", "Pattern can not be a null literal"),
        ("JSON_STRING(JSON(s))", "currently only supported inside JSON_ARRAY()"),
        ("JSON(s)", "currently only supported inside JSON_ARRAY()"),
        ("UPER(s)", "Did you mean UPPER?"),
    ],
)
def test_a_wrong_call_says_what_is_right(sql, message):
    columns = [(name, parse_type(text)) for name, text in COLUMNS.items()]

    with pytest.raises(InvalidQuery) as error:
        Binder(CatalogManager()).expression(sql, columns)

    assert message in str(error.value)
