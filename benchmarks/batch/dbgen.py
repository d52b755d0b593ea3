"""Writes the tables of TPC-H as Parquet, and DuckDB's answers to Q3 and Q10; run by an interpreter that has DuckDB.

usage: dbgen.py FOLDER SCALE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
from duckdb_extensions import import_extension
from tpch_queries import QUERIES, TABLES


def main() -> None:
    """Write everything."""
    folder, scale = Path(sys.argv[1]), float(sys.argv[2])
    import_extension("tpch")
    database = duckdb.connect(str(folder / "tables.duckdb"))
    database.execute("LOAD tpch")
    database.execute(f"CALL dbgen(sf = {scale})")
    for table, columns in TABLES.items():
        target = folder / f"{table}.parquet"
        database.execute(f"COPY (SELECT {columns} FROM {table}) TO '{target}' (FORMAT parquet, ROW_GROUP_SIZE 122880)")
    answers = {}
    for name, query in QUERIES.items():
        for table in TABLES:
            query = query.replace(f"<{table}>", f"'{folder / f'{table}.parquet'}'")  # noqa: PLW2901
        answers[name] = database.execute(query).fetchall()
    (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
