"""The queries as SQL over all events at once, for DuckDB: what the programs have to give. Shares no code with them.

usage: reference.py FOLDER QUERY; reads ``person``, ``auction`` and ``bid`` from Parquet files in the folder, and writes
the result there as ``QUERY.parquet``. It runs in an environment of its own, which has DuckDB and not Funken.

Where the specification leaves open which of several equal rows it means, the order says it. Times are ms since the epoch.
"""

from __future__ import annotations

import sys
from pathlib import Path

WINNERS = """
    SELECT A.*, B.bidder, B.price, B.channel, B.url, B.date_time AS bid_time, B.extra AS bid_extra
    FROM auction A JOIN bid B ON A.id = B.auction AND B.date_time BETWEEN A.date_time AND A.expires
    QUALIFY row_number() OVER (PARTITION BY A.id
        ORDER BY B.price DESC, B.date_time, B.bidder, B.channel, B.url, B.extra) = 1
"""

DAY = "strftime(epoch_ms(date_time), '%Y-%m-%d')"
MINUTE = "strftime(epoch_ms(date_time), '%H:%M')"
LEVELS = ("true", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
COUNTS = ", ".join(
    f"count({what}) FILTER ({level})" for what in ("*", "DISTINCT bidder", "DISTINCT auction") for level in LEVELS
)
CHANNEL_ID = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"

QUERIES = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price::DECIMAL(19, 0), date_time, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q4": f"SELECT category, sum(price)::BIGINT // count(*) FROM ({WINNERS}) GROUP BY category",
    "q5": """
        WITH windows AS (
            SELECT auction, date_time // 2000 * 2000 - 2000 * back AS start, count(*) AS num
            FROM bid, range(5) AS r(back) GROUP BY ALL)
        SELECT auction, num FROM windows QUALIFY num = max(num) OVER (PARTITION BY start)""",
    "q6": f"""
        SELECT seller, (sum(price) OVER last_ten)::BIGINT // count(*) OVER last_ten FROM ({WINNERS})
        WINDOW last_ten AS (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)""",
    "q7": """
        SELECT auction, bidder, price, date_time, extra FROM bid
        QUALIFY price = max(price) OVER (PARTITION BY date_time // 10000)""",
    "q8": """
        SELECT DISTINCT P.id, P.name, P.date_time // 10000 * 10000 AS start
        FROM person P JOIN auction A ON P.id = A.seller AND A.date_time // 10000 = P.date_time // 10000""",
    "q9": f"""
        SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra,
            id, bidder, price, bid_time, bid_extra FROM ({WINNERS})""",
    "q10": f"SELECT auction, bidder, price, date_time, extra, {DAY}, {MINUTE} FROM bid",
    "q11": """
        WITH steps AS (
            SELECT bidder, date_time, date_time - lag(date_time) OVER of_bidder > 10000 AS begins
            FROM bid WINDOW of_bidder AS (PARTITION BY bidder ORDER BY date_time)),
        sessions AS (
            SELECT bidder, date_time, count(*) FILTER (begins) OVER (PARTITION BY bidder ORDER BY date_time) AS session
            FROM steps)
        SELECT bidder, count(*), min(date_time), max(date_time) + 10000 FROM sessions GROUP BY bidder, session""",
    # Which window a bid is in depends on the clock; how many bids there are does not.
    "q12": "SELECT bidder, count(*) FROM bid GROUP BY bidder",
    "q13": """
        SELECT auction, bidder, price, date_time, 'value-' || auction % 10000 FROM bid WHERE auction % 10000 % 7 <> 0""",
    "q14": """
        SELECT auction, bidder, 0.908 * price::DECIMAL(19, 0),
            CASE WHEN hour(epoch_ms(date_time)) BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour(epoch_ms(date_time)) <= 6 OR hour(epoch_ms(date_time)) >= 20 THEN 'nightTime'
                ELSE 'otherTime' END,
            date_time, extra, length(extra) - length(replace(extra, 'c', ''))
        FROM bid WHERE 0.908 * price::DECIMAL(19, 0) > 1000000 AND 0.908 * price::DECIMAL(19, 0) < 50000000""",
    "q15": f"SELECT {DAY} AS day, {COUNTS} FROM bid GROUP BY day",
    "q16": f"SELECT channel, {DAY} AS day, max({MINUTE}), {COUNTS} FROM bid GROUP BY channel, day",
    "q17": f"""
        SELECT auction, {DAY} AS day, {", ".join(f"count(*) FILTER ({level})" for level in LEVELS)},
            min(price), max(price), sum(price)::BIGINT // count(*), sum(price)::BIGINT FROM bid GROUP BY auction, day""",
    "q18": """
        SELECT auction, bidder, price, channel, url, date_time, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction
            ORDER BY date_time DESC, price DESC, channel DESC, url DESC, extra DESC) = 1""",
    "q19": """
        SELECT auction, row_number() OVER highest AS rank, bidder, price, channel, url, date_time, extra FROM bid
        WINDOW highest AS (PARTITION BY auction ORDER BY price DESC, date_time, bidder, channel, url, extra)
        QUALIFY rank <= 10""",
    "q20": """
        SELECT B.*, A.* EXCLUDE (id) FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10""",
    "q21": f"""
        SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
            WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {CHANNEL_ID} END AS id
        FROM bid WHERE id IS NOT NULL""",
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6)
        FROM bid""",
    "q23": """
        SELECT B.bidder, B.price, B.channel, B.url, B.extra, P.* EXCLUDE (date_time), A.* EXCLUDE (id)
        FROM bid B JOIN person P ON P.id = B.bidder JOIN auction A ON A.seller = B.bidder""",
}


def main() -> None:
    """Answer one query."""
    import duckdb  # noqa: PLC0415 - Funken's own environment has none, and reads QUERIES

    folder, query = Path(sys.argv[1]), sys.argv[2]
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for table in ("person", "auction", "bid"):
        connection.read_parquet(str(folder / f"{table}.parquet")).create_view(table)
    # Parquet keeps a name once; what counts is the order.
    result = connection.sql(QUERIES[query])
    names = ", ".join(f"c{number}" for number in range(len(result.columns)))
    connection.sql(f"SELECT * FROM ({QUERIES[query]}) AS result({names})").write_parquet(
        str(folder / f"{query}.parquet")
    )


if __name__ == "__main__":
    main()
