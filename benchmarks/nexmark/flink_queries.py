"""The queries in Flink's SQL, over the tables ``person``, ``auction`` and ``bid``; imported where there is no Funken.

Times are numbers of ms, as in the files; ``ts`` is the time attribute. The SQL is Nexmark's, with window functions instead of the
grouped windows that Flink no longer has. Ties are not ordered further: results are compared at a rate at which there are none.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

TABLES = {
    "person": "id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, state STRING, date_time BIGINT, "
    "extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time BIGINT, "
    "expires BIGINT, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time BIGINT, extra STRING",
}
TIME = "ts AS TO_TIMESTAMP_LTZ(date_time, 3)"
WATERMARK = "WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND"
TIMES = dict.fromkeys(("q5", "q7", "q8", "q11", "q18"), WATERMARK) | {"q12": "clock AS PROCTIME()"}
"""What else the tables have for a query: who needs no watermarks does not pay for them."""

FUNCTIONS = {"count_char": "bench.Functions$CountChar", "side_input": "bench.Functions$SideInput"}
"""Functions in Java: SQL cannot count a letter, and no connector of Flink looks keys up in a file any more."""

CANNOT = {"q6": "an OVER window over a result that is updated: refused by Flink's planner"}
"""Queries that Flink's SQL cannot run."""

UNCHECKED = {"q12": "windows that the clock has not closed when the input ends never fire: no two runs give the same"}
"""Queries whose result cannot be compared in streaming mode."""

REPLACED = {"q9": 1}
"""How many leading fields say which row a change replaces, where Flink leaves out the row that is replaced."""

DAY, MINUTE = "DATE_FORMAT(ts, 'yyyy-MM-dd')", "DATE_FORMAT(ts, 'HH:mm')"
LEVELS = ("", " FILTER (WHERE price < 10000)", " FILTER (WHERE price >= 10000 AND price < 1000000)")
LEVELS += (" FILTER (WHERE price >= 1000000)",)
COUNTS = ", ".join(f"COUNT({what}){level}" for what in ("*", "DISTINCT bidder", "DISTINCT auction") for level in LEVELS)
TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
HOT = """
    SELECT auction, COUNT(*) AS num, window_start, window_end
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
"""
OPEN = "auction A JOIN bid B ON A.id = B.auction AND B.date_time BETWEEN A.date_time AND A.expires"
OF_BID = "B.auction, B.bidder, B.price, B.channel, B.url, B.date_time, B.extra"
OF_AUCTION = (
    "A.item_name, A.description, A.initial_bid, A.reserve, A.date_time, A.expires, A.seller, A.category, A.extra"
)

QUERIES = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price, date_time, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
        SELECT category, AVG(final) FROM (SELECT MAX(B.price) AS final, A.category FROM {OPEN} GROUP BY A.id, A.category)
        GROUP BY category""",
    "q5": f"""
        SELECT B.auction, B.num FROM ({HOT}) B
        JOIN (SELECT MAX(num) AS most, window_start, window_end FROM ({HOT}) GROUP BY window_start, window_end) M
        ON B.window_start = M.window_start AND B.window_end = M.window_end AND B.num >= M.most""",
    "q7": f"""
        SELECT B.auction, B.bidder, B.price, B.date_time, B.extra FROM {TUMBLE.format("bid")} B
        JOIN (SELECT MAX(price) AS price, window_start, window_end FROM {TUMBLE.format("bid")}
            GROUP BY window_start, window_end) M
        ON B.window_start = M.window_start AND B.window_end = M.window_end AND B.price = M.price""",
    "q8": f"""
        SELECT P.id, P.name, P.window_start
        FROM (SELECT id, name, window_start, window_end FROM {TUMBLE.format("person")}
            GROUP BY id, name, window_start, window_end) P
        JOIN (SELECT seller, window_start, window_end FROM {TUMBLE.format("auction")}
            GROUP BY seller, window_start, window_end) A
        ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end""",
    "q9": """
        SELECT id, item_name, description, initial_bid, reserve, opened, expires, seller, category, extra,
            auction, bidder, price, date_time, bid_extra
        FROM (SELECT A.id, A.item_name, A.description, A.initial_bid, A.reserve, A.date_time AS opened, A.expires, A.seller,
                A.category, A.extra, B.auction, B.bidder, B.price, B.date_time, B.extra AS bid_extra,
                ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.date_time) AS place
            FROM """
    + OPEN
    + ") WHERE place <= 1",
    "q10": f"SELECT auction, bidder, price, date_time, extra, {DAY} AS dt, {MINUTE} AS hm FROM bid",
    "q11": """
        SELECT bidder, COUNT(*), window_start, window_end
        FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q12": """
        SELECT bidder, COUNT(*), window_start, window_end
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(clock), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q13": """
        SELECT auction, bidder, price, date_time, found
        FROM (SELECT auction, bidder, price, date_time, side_input(MOD(auction, 10000)) AS found FROM bid)
        WHERE found IS NOT NULL""",
    "q14": """
        SELECT auction, bidder, 0.908 * price,
            CASE WHEN HOUR(ts) BETWEEN 8 AND 18 THEN 'dayTime' WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'nightTime'
                ELSE 'otherTime' END,
            date_time, extra, count_char(extra, 'c')
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {DAY}, {COUNTS} FROM bid GROUP BY {DAY}",
    "q16": f"SELECT channel, {DAY}, MAX({MINUTE}), {COUNTS} FROM bid GROUP BY channel, {DAY}",
    "q17": f"""
        SELECT auction, {DAY}, {", ".join(f"COUNT(*){level}" for level in LEVELS)},
            MIN(price), MAX(price), AVG(price), SUM(price) FROM bid GROUP BY auction, {DAY}""",
    "q18": """
        SELECT auction, bidder, price, channel, url, date_time, extra
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) AS place FROM bid)
        WHERE place <= 1""",
    "q19": """
        SELECT auction, place, bidder, price, channel, url, date_time, extra
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS place FROM bid)
        WHERE place <= 10""",
    "q20": f"SELECT {OF_BID}, {OF_AUCTION} FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10",
    "q21": """
        SELECT * FROM (SELECT auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS id FROM bid)
        WHERE id IS NOT NULL""",
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5)
        FROM bid""",
    "q23": f"""
        SELECT B.bidder, B.price, B.channel, B.url, B.extra, P.id, P.name, P.email, P.credit_card, P.city, P.state, P.extra,
            {OF_AUCTION}
        FROM bid B JOIN person P ON P.id = B.bidder JOIN auction A ON A.seller = B.bidder""",
}

LOG = (
    "CREATE TABLE log (auction BIGINT, bidder BIGINT, price BIGINT, date_time BIGINT, extra STRING, dt STRING, hm STRING) "
    "PARTITIONED BY (dt, hm) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')"
)
"""Where q10 writes to."""


def definitions(query: str, servers: str, events: str) -> Iterator[str]:
    """Give the statements that make the tables of a query, of topics of ``servers``, or of files if there are none."""
    times = ", ".join(filter(None, (TIME, TIMES.get(query))))
    for name, columns in TABLES.items():
        place = topic(servers, f"{events}-{name}") if servers else files(f"{events}/{name}")
        yield f"CREATE TABLE {name} ({columns}, {times}) WITH ({place})"


def files(folder: str) -> str:
    """Return the options of a table of Parquet files."""
    return f"'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'parquet'"


def topic(servers: str, name: str) -> str:
    """Return the options of a table of what a topic has when the job starts."""
    place = (
        f"'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json'"
    )
    return f"{place}, 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"


def left(changes: Iterable[tuple[str, tuple[Any, ...]]], key: int) -> list[tuple[Any, ...]]:
    """Return what a changelog says in the end; with a key, a change replaces the row with the same leading fields."""
    found: Counter[tuple[Any, ...]] = Counter()
    last: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for kind, row in changes:
        gone = kind in ("-U", "-D")
        if not key:
            found[row] += -1 if gone else 1
        elif gone:
            last.pop(row[:key], None)
        else:
            last[row[:key]] = row
    if any(count < 0 for count in found.values()):
        raise ValueError("the changelog takes back what it never said")
    return [*found.elements(), *last.values()]


def logged(log: Path) -> list[tuple[Any, ...]]:
    """Return what is in the files of q10 that are finished."""
    found: list[tuple[Any, ...]] = []
    for path in log.glob("dt=*/hm=*/part-*"):
        partition = [unquote(part.partition("=")[2]) for part in path.relative_to(log).parts[:2]]
        with path.open(newline="") as file:
            found += [(*map(int, numbers), extra, *partition) for *numbers, extra in csv.reader(file)]
    return found
