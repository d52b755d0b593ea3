"""What a record of CSV or of JSON lines costs a reader (CPU time): as a record, as columns, and as columns of two fields.

And what lines of JSON and of CSV cost a sink: of columns, and of the records that are made of them.

usage: text_columns.py [--rows N]; prints a JSON line per format and form.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from funken import FileSource, Types
from funken.columnar.kernels.columns import columns_of
from funken.connectors import Batch, ConnectorContext, JsonSchema
from funken.connectors.files.csv_files import CsvReaderFormat
from funken.connectors.files.line_files import LineEncoder, LineFormat
from funken.connectors.formats.csv_schema import CsvSchema
from funken.expr.types import DICT, FLOAT, INT, STR, Record

FIELDS = {
    "moment": Types.LONG(),
    "item": Types.STRING(),
    "price": Types.DOUBLE(),
    "customer": Types.LONG(),
    "note": Types.STRING(),
}
ORDER = Types.ROW_NAMED(list(FIELDS), list(FIELDS.values()))
FORMATS = {
    "CSV lines": LineFormat(CsvSchema(ORDER)),
    "CSV lines, quoted": LineFormat(CsvSchema(ORDER)),
    "CSV files": CsvReaderFormat(CsvSchema(ORDER)),
    "JSON lines": LineFormat(JsonSchema(ORDER)),
}


def line(name: str, number: int, dice: random.Random) -> str:
    """Return an order as text; in JSON one of four prices is a whole number, as a float (``3.0``)."""
    item, price, customer = f"item-{number % 1000}", dice.randrange(400) / 4, dice.randrange(10**6)
    if name == "JSON lines":
        fields = {"moment": number, "item": item, "price": price, "customer": customer, "note": "x" * 40}
        return json.dumps(fields) + "\n"
    note = f'"note {number % 77}, ""x"""' if "quoted" in name else f"note {number % 77}"
    return f"{number},{item},{price},{customer},{note}\n"


def cost(name: str, rows: int, form: str, wanted: tuple[int, ...] | None) -> int:
    """Read a new file, and return the CPU time (ns) per record."""
    dice = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.txt").write_text("".join(line(name, number, dice) for number in range(rows)))
        source = FileSource.for_format(FORMATS[name], folder).build()
        splits, reader, count, blocks = source.enumerator(1), source.reader(ConnectorContext("in")), 0, 0
        splits.start()
        if form == "columns":
            reader.read_record_columns(source.record_schema(), wanted)
        began = time.process_time()
        while given := splits.next_splits(0):
            reader.add_splits(given)
            while isinstance(got := reader.poll(16_000, 0), Batch):
                count += len(got.values)
                blocks += form == "columns" and not isinstance(got.values, list)
        spent = time.process_time() - began
        reader.close()
    if count != rows or (form == "columns" and not blocks):
        sys.exit(f"{name}: {count} records in {blocks} blocks instead of {rows}")
    return round(spent / count * 1e9)


def written(rows: int, form: str, how: CsvSchema | JsonSchema) -> int:
    """Write lines of blocks of columns, and return the CPU time (ns) per record."""
    schema = Record((INT, STR, FLOAT, INT, STR), DICT, tuple(FIELDS))
    lines = [json.loads(line("JSON lines", number, random.Random(number))) for number in range(8000)]
    block, encoder = columns_of(lines, schema), LineEncoder(how)
    began, times = time.process_time(), max(1, rows // len(lines))
    for _ in range(times):
        data = encoder.encode(block if form == "columns" else block.rows()[0])
    spent = time.process_time() - began
    if data != b"".join(how.serialize(each) + b"\n" for each in lines):
        sys.exit("other lines were written")
    return round(spent / times / len(lines) * 1e9)


def main() -> None:
    """Measure, each after a small file that loads what is needed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    rows = parser.parse_args().rows
    for name in FORMATS:
        for form, wanted in (("records", None), ("columns", None), ("columns", (0, 2))):
            cost(name, 1000, form, wanted)
            found = cost(name, rows, form, wanted)
            fields = len(FIELDS) if wanted is None else len(wanted)
            print(json.dumps({"format": name, "as": form, "fields": fields, "cpu_ns": found}), flush=True)
    for how in (JsonSchema(), CsvSchema(ORDER)):
        for form in ("records", "columns"):
            name = f"{type(how).__name__.removesuffix('Schema').upper()} lines, written"
            found = written(rows, form, how)
            print(json.dumps({"format": name, "as": form, "fields": 5, "cpu_ns": found}), flush=True)


if __name__ == "__main__":
    main()
