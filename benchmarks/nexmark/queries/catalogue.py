"""All queries, by name."""

from __future__ import annotations

from streams import Query

from queries.archive import log, logged, q10
from queries.joins import q3, q8, q13, q20, q23
from queries.patterns import PATTERNS
from queries.ranking import q18, q19
from queries.reports import q15, q16, q17
from queries.stateless import q0, q1, q2, q14, q21, q22
from queries.windowed import q5, q7, q11, q12
from queries.winning import q4, q6, q9

HOURS = (0.2, 10_000)
"""Events a second, few enough for a query about the time of day to see all of a day, and as many as are measured."""

QUERIES = {
    query.name: query
    for query in (
        Query("q0", "pass through", q0),
        Query("q1", "currency conversion", q1),
        Query("q2", "selection", q2),
        Query("q3", "local item suggestion", q3),
        Query("q4", "average price for a category", q4, key=1, note="an auction counts when it is closed"),
        Query("q5", "hot items", q5),
        Query(
            "q6",
            "average selling price by seller",
            q6,
            note="of the last ten closed auctions; Flink's SQL cannot run it",
        ),
        Query("q7", "highest bid", q7, note="a bid at the very end of a window is in the next one only"),
        Query("q8", "monitor new users", q8),
        Query("q9", "winning bids", q9, note="given once, when the auction is closed"),
        Query("q10", "log to file system", q10, sink=log, written=logged, note="without a _SUCCESS file per folder"),
        Query("q11", "user sessions", q11),
        Query(
            "q12",
            "processing time windows",
            q12,
            by_the_clock=True,
            note="compared is what does not depend on the clock",
        ),
        Query("q13", "bounded side input join", q13, note="every seventh key has no value"),
        Query("q14", "calculation", q14, rates=HOURS),
        Query("q15", "bidding statistics report", q15, key=1),
        Query("q16", "channel statistics report", q16, key=2),
        Query("q17", "auction statistics report", q17, key=2),
        Query("q18", "find last bid", q18, key=2),
        Query("q19", "auction top-10 price", q19, key=2),
        Query("q20", "expand bid with auction", q20),
        Query("q21", "add channel id", q21),
        Query("q22", "get url directories", q22),
        Query("q23", "expand bid with person and auction", q23),
    )
}

ALL = QUERIES | PATTERNS
"""The queries of the suite, and those that are patterns."""
