"""How many operators of the Nexmark queries and of the examples run on columns: more and more, and never fewer."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "column_share.py"

ON_COLUMNS = {"nexmark": (102, 111), "examples": (2, 57)}
"""How many operators run on columns, and how many there are; the first may only grow, and with a program both may."""


@pytest.fixture(scope="module")
def found():
    """What the script counts."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("group", list(ON_COLUMNS))
def test_the_share_of_operators_on_columns_does_not_fall(group, found):
    operators = [operator for each in found[group].values() if isinstance(each, list) for operator in each]
    count = sum(operator["on_columns"] for operator in operators)

    assert (count, len(operators)) == ON_COLUMNS[group], f"{group}: if more run on columns, ON_COLUMNS has to say so"


def test_every_program_is_counted_or_has_a_reason(found):
    from_examples = {path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples").rglob("*.py")}

    assert {*found["examples"]} == from_examples - {"turnstiles/counting.py", "sql/sentiment.py"}
    assert {name for name, each in found["examples"].items() if isinstance(each, str)} == {
        "baskets.py",
        "dataframes.py",
    }
    assert [*found["nexmark"]] == [f"q{number}" for number in range(24)]


def test_whatever_runs_in_rows_has_a_reason_that_is_no_consequence(found):
    operators = [
        operator for group in found.values() for each in group.values() for operator in each if "path" in operator
    ]

    for operator in operators:
        assert operator["on_columns"] == operator["path"].startswith("vectorized")
        assert operator["on_columns"] == (not operator["root"]), operator
        assert "gives it single records" not in operator["root"], operator


def test_the_report_has_a_line_for_each_program_and_each_reason():
    script = runpy.run_path(str(SCRIPT))
    row, column = (
        script["Operator"]("b", "map", False, "per record: makes a list", "makes a list"),
        script["Operator"]("a", "source", True, "vectorized"),
    )
    text = script["report"]({"queries": {"q0": [column, row], "q1": "needs Spark"}}, everything=False)

    assert text.splitlines() == [
        "queries: 1 of 2 (50%) operators on columns",
        "  q0                   1 of 2 (50%)     records at 'b': makes a list",
        "  q1                   not counted: needs Spark",
        "     1  makes a list",
        "all: 1 of 2 (50%) operators on columns",
    ]
