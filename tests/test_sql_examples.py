"""Every example of SQL runs as ``funken sql`` runs it, and prints what it should."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from funken.cli.sql import sql
from funken.config import Configuration, set_default_configuration

EXAMPLES = Path(__file__).parents[1] / "examples" / "sql"

PRINTED = {
    "wordcount": ["be | 2", "to | 3"],
    "nexmark": [
        *("3 | 103 | 817.200", "3 | 101 | 862.600"),
        *("2026-01-01 12:00:10.000 | 1 | 3", "2026-01-01 12:00:20.000 | 1 | 3"),
        *("2026-01-01 12:00:30.000 | 2 | 2", "2026-01-01 12:00:40.000 | 1 | 1"),
        *("1 | 410 | 100", "3 | 950 | 101", "1 | 420 | 104"),
    ],
    "cdc_to_lake": ["1 | tea | paid", "3 | oat | new"],
    "enrichment": ["1 | ann | 7.50", "2 | bob | 6.00", "2 | bob | 8.00", "3 | ann | 4.00", "4 | cid | 12.50"],
    "fraud": ["visa | 3 | 800 | 2026-01-01 12:00:09.000"],
    "sessions": [
        "ann | 2026-01-01 12:00:00.000 | 3 | /home,/tea,/cart",
        "bob | 2026-01-01 12:00:10.000 | 1 | /home",
        "bob | 2026-01-01 12:02:00.000 | 2 | /jam,/cart",
        "ann | 2026-01-01 12:05:00.000 | 1 | /home",
    ],
    "top_n": ["1 | 3 | 950", "2 | 1 | 420"],
    "deduplication": ["1 | ann | tea | 3", "2 | bob | jam | 2", "3 | ann | jam | 1", "4 | cid | tea | 5"],
    "late": [
        "2026-01-01 12:00:10.000 | 3 | 7",
        "2026-01-01 12:00:20.000 | 1 | 3",
        "2026-01-01 12:00:30.000 | 1 | 5",
        "2026-01-01 12:00:40.000 | 1 | 7",
    ],
    "predict": ["1 | good | 0.5", "2 | bad | 0.25", "3 | unknown | 0.0"],
}


def test_every_example_is_here():
    assert {file.stem for file in EXAMPLES.glob("*.sql")} == set(PRINTED)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_should(name, parallelism, tmp_path, monkeypatch):
    folder = shutil.copytree(EXAMPLES, tmp_path / "sql")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))

    try:
        result = CliRunner().invoke(sql, ["--target", "local", "-p", str(parallelism), f"{name}.sql"])
    finally:
        set_default_configuration(Configuration())

    assert result.exception is None, result.output
    tables = [line.strip("|").strip() for line in result.output.splitlines() if line.startswith("|")]
    cells = [" | ".join(part.strip() for part in line.split("|")) for line in tables]
    assert sorted(line for line in cells if line in PRINTED[name]) == sorted(PRINTED[name])


def test_changes_of_the_board_come_one_by_one(tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(EXAMPLES, tmp_path / "sql"))
    try:
        result = CliRunner().invoke(sql, ["--target", "local", "-p", "1", "top_n.sql"])
    finally:
        set_default_configuration(Configuration())

    changes = [line for line in result.output.splitlines() if line[:1] in "+-" and "[" in line]
    assert changes[:3] == ["+I[1, 1, 250]", "-U[1, 1, 250]", "+U[1, 2, 300]"]


def test_the_lake_has_the_history(tmp_path, monkeypatch):
    import pandas as pd

    monkeypatch.chdir(shutil.copytree(EXAMPLES, tmp_path / "sql"))
    try:
        CliRunner().invoke(sql, ["--target", "local", "-p", "1", "cdc_to_lake.sql"], catch_exceptions=False)
    finally:
        set_default_configuration(Configuration())

    rows = pd.concat(map(pd.read_parquet, Path("lake/history").glob("part*")))
    assert list(rows["op"]) == ["INSERT", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "INSERT"]
