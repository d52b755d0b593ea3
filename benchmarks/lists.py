"""What functions over lists cost per record, one by one and in columns: orders with items and tags, of JSON lines and Parquet.

usage: python benchmarks/lists.py [--orders N] [--rounds N]

Prints nanoseconds of a local job per order, the least of the rounds, which take turns.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from funken import Configuration, DiscardingSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import JsonSchema
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.line_files import LineFormat


def orders(count: int) -> list[dict[str, Any]]:
    dice = random.Random(1)
    return [
        {
            "id": number,
            "user": f"u{number % 1000}",
            "tags": [dice.choice(["new", "old", "sale", "vip"]) for _ in range(dice.randrange(4))],
            "items": [
                {"sku": f"s{dice.randrange(500)}", "price": dice.randrange(800) / 8, "n": dice.randrange(1, 5)}
                for _ in range(dice.randrange(5))
            ],
        }
        for number in range(count)
    ]


def total(order: Any) -> Any:
    price = sum((item["price"] * item["n"] for item in order["items"]), 0.0)
    return {"id": order["id"], "total": price, "items": len(order["items"])}


def written_out(order: Any) -> Any:
    price, count = 0.0, 0
    for item in order["items"]:
        price += item["price"] * item["n"]
        count += 1
    return {"id": order["id"], "total": price, "items": count}


def lines(order: Any) -> Any:
    for item in order["items"]:
        if item["n"] > 1:
            yield order["user"], item["sku"], item["price"] * item["n"]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "sum of ints": lambda stream: stream.map(lambda order: sum(item["n"] for item in order["items"])),
    "total": lambda stream: stream.map(total),
    "total, a loop": lambda stream: stream.map(written_out),
    "list of texts": lambda stream: stream.map(
        lambda r: (r["id"], [item["sku"] for item in r["items"] if item["n"] > 2])
    ),
    "filter": lambda stream: stream.filter(
        lambda order: "vip" in order["tags"] or any(item["price"] > 90 for item in order["items"])
    ).map(lambda order: order["id"]),
    "flat_map": lambda stream: stream.flat_map(lines),
}


def seconds(source: Any, program: Callable[[Any], Any], vectorized: bool) -> float:
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration().set("pipeline.vectorized", vectorized))
    program(env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "orders")).sink_to(DiscardingSink())
    assert not vectorized or "orders: vectorized" in env.explain()
    begin = time.perf_counter()
    env.execute("lists")
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = orders(options.orders)
        text, table = Path(folder, "orders.jsonl"), Path(folder, "orders.parquet")
        text.write_text("".join(json.dumps(each) + "\n" for each in made))
        parquet.write_table(pa.Table.from_pylist(made), table)
        sources = {
            "JSON": FileSource.for_format(LineFormat(JsonSchema()), str(text)),
            "Parquet": FileSource.for_bulk_file_format(ParquetFormat(), str(table)),
        }
        for form, source in sources.items():
            for name, program in PROGRAMS.items():
                found: dict[bool, list[float]] = {True: [], False: []}
                for vectorized in (True, False) * options.rounds:
                    found[vectorized].append(seconds(source, program, vectorized) / options.orders * 1e9)
                records, columns = min(found[False]), min(found[True])
                print(f"{form:8} {name:14} {records:6.0f} {columns:6.0f}  {records / columns:.2f} x", flush=True)


if __name__ == "__main__":
    main()
