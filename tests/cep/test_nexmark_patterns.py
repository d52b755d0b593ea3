"""The pattern queries over Nexmark's events give what plain loops find; ``make nexmark`` compares them with DuckDB, too."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from funken import StreamExecutionEnvironment

BENCH = Path(__file__).parents[2] / "benchmarks" / "nexmark"
ROWS = {"p1": 86, "p2": 2552, "p3": 24, "cep0": 116, "cep1": 662, "cep2": 1029, "cep3": 806}


@pytest.fixture(autouse=True)
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH.parent / "compare"))
    monkeypatch.syspath_prepend(str(BENCH))


class Loops:
    """Knows what is right."""

    count = 2000

    def rows(self, query, nexmark):
        return RIGHT[query](nexmark, self.count)


def by_auction(nexmark, count, kinds=("Bid",), of=lambda event: event.auction):
    """Yield the events of each auction, or of each key, in order."""
    from queries.patterns import place

    found = defaultdict(list)
    for event in map(nexmark.event, range(count)):
        if type(event).__name__ in kinds:
            found[of(event)].append(event)
    for events in found.values():
        yield sorted(events, key=place)


def wars(nexmark, count):
    rows = []
    for bids in by_auction(nexmark, count):
        begin = 0
        while begin < len(bids):
            end = begin + 1
            while end < len(bids) and bids[end].bidder != bids[end - 1].bidder:
                end += 1
            complete = end < len(bids) and end - begin >= 5
            if complete:
                rows.append((bids[end].auction, end - begin))
            begin = end + complete
    return rows


def jumps(nexmark, count):
    rows = []
    for bids in by_auction(nexmark, count):
        for index, low in enumerate(bids):
            soon = (bid for bid in bids[index + 1 :] if bid.date_time < low.date_time + 10_000)
            high = next((bid.price for bid in soon if bid.price >= 10 * low.price), None)
            if high is not None:
                rows.append((low.auction, low.price, high))
    return rows


def unsold(nexmark, count):
    rows = []
    for events in by_auction(
        nexmark, count, ("Auction", "Bid"), lambda event: getattr(event, "auction", None) or event.id
    ):
        for index, auction in enumerate(events):
            if type(auction).__name__ == "Auction":
                end = auction.date_time + 10_000
                if not any(event.date_time < end for event in events[index + 1 :]):
                    rows.append((auction.id,))
    return rows


def by_bidder(nexmark, count):
    return by_auction(nexmark, count, of=lambda bid: (bid.auction, bid.bidder))


def falls(nexmark, count):
    rows = []
    for bids in by_bidder(nexmark, count):
        begin = 0
        while begin < len(bids):
            end = begin + 1
            while end < len(bids) and bids[end].price < bids[end - 1].price:
                end += 1
            if end - begin > 2 and end < len(bids) and bids[end].price > bids[end - 2].price:
                first = bids[begin]
                rows.append(
                    (first.auction, first.bidder, first.date_time, bids[end - 1].date_time, bids[end].date_time)
                )
            begin = end
    return rows


def averages(nexmark, count, past_last=True):
    rows = []
    for bids in by_bidder(nexmark, count):
        begin = 0
        while begin < len(bids):
            end = begin
            while end < len(bids) and mean(bids[begin : end + 1]) < 10_000:
                end += 1
            end = min(end, len(bids) - 1)
            step = 1
            if end > begin:
                taken = bids[begin:end]
                times = (taken[0].date_time, taken[-1].date_time)
                rows.append((taken[0].auction, taken[0].bidder, *times, mean(taken)))
                step = end - begin + 1 if past_last else 1
            begin += step
    return rows


def mean(bids):
    return sum(bid.price for bid in bids) / len(bids)


def drops(nexmark, count):
    rows = []
    for bids in by_bidder(nexmark, count):
        begin = 0
        while begin < len(bids):
            first = bids[begin]
            low = next((at for at in range(begin + 1, len(bids)) if bids[at].price <= first.price - 50), None)
            begin += 1
            if low is None or bids[low].price == first.price - 50 or bids[low].date_time >= first.date_time + 5000:
                continue
            rows.append((first.auction, first.bidder, bids[low].date_time, first.price - bids[low].price))
            begin = low + 1
    return rows


RIGHT = {
    "p1": wars, "p2": jumps, "p3": unsold, "cep0": falls, "cep1": averages,
    "cep2": lambda nexmark, count: averages(nexmark, count, past_last=False), "cep3": drops,
}  # fmt: skip


@pytest.mark.parametrize("name", list(ROWS))
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_pattern_query_gives_what_a_loop_finds(name, parallelism, tmp_path):
    from checking import check
    from queries.patterns import PATTERNS
    from run import generated

    def new():
        return StreamExecutionEnvironment.create_local_environment(parallelism)

    found = check(PATTERNS[name], new, generated, 1, Loops(), tmp_path)
    assert found == ROWS[name]
