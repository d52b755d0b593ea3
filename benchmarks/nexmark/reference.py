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
ORDER = "date_time, bidder, price, channel, url, extra"
BY_BIDDER = f"""
    SELECT auction, bidder, price, date_time, row_number() OVER w AS n, count(*) OVER (PARTITION BY auction, bidder) AS most,
        lag(price) OVER w AS before, lead(price) OVER w AS after, lead(date_time) OVER w AS after_time
    FROM bid WINDOW w AS (PARTITION BY auction, bidder ORDER BY {ORDER})
"""
# From each row on, the row that ends a match: the first with which the average is too high, or the last one.
AVERAGES = f"""
    numbered AS ({BY_BIDDER}),
    sums AS (
        SELECT A.auction, A.bidder, A.n, A.most, A.date_time, R.n AS m,
            avg(R.price) OVER (PARTITION BY A.auction, A.bidder, A.n ORDER BY R.n) AS average
        FROM numbered A JOIN numbered R ON R.auction = A.auction AND R.bidder = A.bidder AND R.n >= A.n
        WHERE A.price < 10000),
    found AS (
        SELECT auction, bidder, n, any_value(date_time) AS since,
            coalesce(min(m) FILTER (average >= 10000), any_value(most)) AS until
        FROM sums GROUP BY auction, bidder, n HAVING until > n)
"""
AVERAGE_ROWS = """
    SELECT M.auction, M.bidder, M.since, L.date_time, avg(R.price) FROM {matches} M
    JOIN numbered L ON L.auction = M.auction AND L.bidder = M.bidder AND L.n = M.until - 1
    JOIN numbered R ON R.auction = M.auction AND R.bidder = M.bidder AND R.n BETWEEN M.n AND M.until - 1
    GROUP BY M.auction, M.bidder, M.n, M.since, L.date_time
"""
# The first match of a partition, and then the first one that begins behind the last row of the one before.
PAST_LAST = """
    past AS (
        SELECT auction, bidder, min(n) AS n, arg_min(until, n) AS until, arg_min(since, n) AS since
        FROM found GROUP BY auction, bidder
        UNION ALL
        SELECT F.auction, F.bidder, min(F.n), arg_min(F.until, F.n), arg_min(F.since, F.n)
        FROM past P JOIN found F ON F.auction = P.auction AND F.bidder = P.bidder AND F.n > P.until
        GROUP BY F.auction, F.bidder)
"""
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
    # Patterns: runs of falling prices, and a price above the last but one of them.
    "cep0": f"""
        WITH steps AS (SELECT *, count(*) FILTER (before IS NULL OR price >= before)
                OVER (PARTITION BY auction, bidder ORDER BY n) AS run FROM ({BY_BIDDER}))
        SELECT auction, bidder, min(date_time), max(date_time), arg_max(after_time, n) FROM steps
        GROUP BY auction, bidder, run
        HAVING count(*) > 2 AND arg_max(after, n) > arg_max(before, n)""",
    "cep1": f"WITH RECURSIVE {AVERAGES}, {PAST_LAST} {AVERAGE_ROWS.format(matches='past')}",
    "cep2": f"WITH {AVERAGES} {AVERAGE_ROWS.format(matches='found')}",
    "cep3": f"""
        WITH RECURSIVE numbered AS ({BY_BIDDER}),
        found AS (
            SELECT A.auction, A.bidder, A.n, min(C.n) AS until, A.price - arg_min(C.price, C.n) AS since
            FROM numbered A JOIN numbered C ON C.auction = A.auction AND C.bidder = A.bidder AND C.n > A.n
                AND C.price <= A.price - 50
            GROUP BY A.auction, A.bidder, A.n, A.price, A.date_time
            HAVING since > 50 AND arg_min(C.date_time, C.n) < A.date_time + 5000),
        {PAST_LAST}
        SELECT P.auction, P.bidder, C.date_time, P.since FROM past P
        JOIN numbered C ON C.auction = P.auction AND C.bidder = P.bidder AND C.n = P.until""",
    "p1": f"""
        WITH RECURSIVE numbered AS (
            SELECT auction, row_number() OVER w AS n, bidder = lag(bidder) OVER w AS again
            FROM bid WINDOW w AS (PARTITION BY auction ORDER BY {ORDER})),
        ends AS (
            SELECT auction, n, min(n) FILTER (again) OVER (PARTITION BY auction ORDER BY n
                ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS until FROM numbered),
        wars AS (
            SELECT auction, n, until FROM ends WHERE n = 1
            UNION ALL
            SELECT E.auction, E.n, E.until FROM wars W
            JOIN ends E ON E.auction = W.auction AND E.n = W.until + (W.until - W.n >= 5)::INT)
        SELECT auction, until - n FROM wars WHERE until - n >= 5""",
    "p2": f"""
        WITH numbered AS (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY {ORDER}) AS n FROM bid)
        SELECT L.auction, L.price, arg_min(H.price, H.n) FROM numbered L
        JOIN numbered H ON H.auction = L.auction AND H.n > L.n AND H.price >= 10 * L.price
            AND H.date_time < L.date_time + 10000
        GROUP BY L.auction, L.n, L.price""",
    "p3": """
        SELECT id FROM auction A WHERE NOT EXISTS (
            SELECT * FROM bid WHERE auction = A.id AND date_time BETWEEN A.date_time AND A.date_time + 9999)""",
}


def main() -> None:
    """Answer one query."""
    import duckdb  # noqa: PLC0415 - Funken's own environment has none, and reads QUERIES

    folder, query = Path(sys.argv[1]), sys.argv[2]
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for table in ("person", "auction", "bid"):
        connection.read_parquet(str(folder / table / "events.parquet")).create_view(table)
    # Parquet keeps a name once; what counts is the order.
    result = connection.sql(QUERIES[query])
    names = ", ".join(f"c{number}" for number in range(len(result.columns)))
    connection.sql(f"SELECT * FROM ({QUERIES[query]}) AS result({names})").write_parquet(
        str(folder / f"{query}.parquet")
    )


if __name__ == "__main__":
    main()
