"""The Nexmark programs give what DuckDB gave, and what the bench says, keeps and leans on holds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "benchmarks" / "nexmark"
ANSWERS = json.loads((ROOT / "tests" / "golden" / "nexmark.json").read_text())


@pytest.fixture(autouse=True)
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH.parent / "compare"))
    monkeypatch.syspath_prepend(str(BENCH))


def same_as_duckdb(name, environment, folder, streams=None):
    """Whether a program gives what DuckDB found in the same events."""
    from checking import results
    from golden import COUNT, EVENTS, digest
    from queries.catalogue import QUERIES
    from run import generated

    streams = streams or generated
    env = environment()
    assert digest(results(QUERIES[name], env, streams(env, EVENTS, COUNT, str(folder)))) == ANSWERS[name]


@pytest.mark.ways("local")
@pytest.mark.parametrize("name", list(ANSWERS))
def test_a_program_gives_what_duckdb_gave(name, environment, tmp_path):
    same_as_duckdb(name, environment, tmp_path)


@pytest.mark.ways("local")
@pytest.mark.parametrize("name", list(ANSWERS))
def test_it_does_from_parquet(name, environment, tmp_path):
    from run import FromParquet

    same_as_duckdb(name, environment, tmp_path, FromParquet(tmp_path / "events"))


@pytest.mark.ways("batch", "continuous")
@pytest.mark.parametrize("name", ["q5", "q8", "q9"], ids=["windows", "co_group", "timers"])
def test_it_does_on_spark(name, environment, tmp_path):
    same_as_duckdb(name, environment, tmp_path)


def local(parallelism=2):
    return StreamExecutionEnvironment.create_local_environment(parallelism)


def rows(program, events, tmp_path, parallelism=2):
    """Run a program over events that are given, dealt out to the subtasks in turn."""
    from streams import GeneratedStreams

    source = DataGeneratorSource(events.__getitem__, len(events))
    with program(GeneratedStreams(local(parallelism), source, str(tmp_path))).execute_and_collect() as found:
        return list(found)


def bid(auction=1, bidder=1, price=1, at=0, channel="c"):
    from events import Bid

    return Bid(auction, bidder, price, channel, "u", at, "")


def auction(number, at, expires, seller=1):
    from events import Auction

    return Auction(number, "item", "", 1, 1, at, expires, seller, 10, "")


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_their_numbers_have_no_gaps():
    from events import Auction, Nexmark, Person

    events = [Nexmark().event(number) for number in range(500)]
    assert Counter(type(event).__name__ for event in events) == {"Person": 10, "Auction": 30, "Bid": 460}
    assert [event.id for event in events if type(event) is Person] == list(range(1000, 1010))
    assert [event.id for event in events if type(event) is Auction] == list(range(1000, 1030))
    assert [event.date_time for event in events] == sorted(event.date_time for event in events)


def test_an_event_depends_on_its_number_and_the_seed_and_on_nothing_else():
    from events import Nexmark

    numbers = range(2000, 2050)
    first = [Nexmark(seed=5).event(number) for number in numbers]
    assert [Nexmark(seed=5).event(number) for number in reversed(numbers)] == first[::-1]
    assert not {*first} & {Nexmark(seed=6).event(number) for number in numbers}
    assert Nexmark(rate=10).time(25) == Nexmark().start + 2500


def test_half_of_the_bids_are_hot_and_the_others_are_for_auctions_of_the_time():
    from events import AUCTIONS, EVERY, FIRST_AUCTION, IN_FLIGHT, LEAD, Bid, Nexmark

    first = 400 * EVERY
    made = [(number, Nexmark().event(number)) for number in range(first, first + 2000)]
    bids = [(number, event) for number, event in made if type(event) is Bid]
    hot = sum(event.auction % 100 == FIRST_AUCTION % 100 for _, event in bids)
    assert 0.47 < hot / len(bids) < 0.55
    assert 0.7 < sum(event.bidder % 100 == 1 for _, event in bids) / len(bids) < 0.8
    for number, event in bids:
        newest = FIRST_AUCTION + (number // EVERY + 1) * AUCTIONS - 1
        assert event.auction % 100 == 0 or newest - IN_FLIGHT <= event.auction <= newest + LEAD
        assert 100 <= event.price <= 100_000_000


def test_subtasks_share_the_events():
    from events import Nexmark

    source = Nexmark().source(300)
    with local(3).from_source(source).execute_and_collect() as found:
        assert Counter(found) == Counter(map(Nexmark().event, range(300)))


def test_the_selection_against_a_line(tmp_path):
    from events import Bid, Nexmark
    from queries.stateless import q2

    events = list(map(Nexmark().event, range(4000)))
    right = [(e.auction, e.price) for e in events if type(e) is Bid and e.auction % 123 == 0]
    assert sorted(rows(q2, events, tmp_path)) == sorted(right) != []


def test_winning_bids_against_a_few_lines(tmp_path):
    from events import Auction, Bid, Nexmark
    from queries.winning import q9

    events = list(map(Nexmark(seed=3, rate=10_000).event, range(1500)))
    winners = {}
    for each in (event for event in events if type(event) is Auction):
        bids = [e for e in events if type(e) is Bid and e.auction == each.id]
        valid = [e for e in bids if each.date_time <= e.date_time <= each.expires]
        if valid:
            best = min(valid, key=lambda e: (-e.price, e.date_time, e.bidder))
            winners[each.id] = (*each, each.id, best.bidder, best.price, best.date_time, best.extra)
    found = {row[0]: row for row in rows(q9, events, tmp_path, parallelism=3)}
    assert found == winners != {}


def test_of_equal_bids_the_earlier_one_wins_and_the_last_moment_counts(tmp_path):
    from queries.winning import q9

    events = [auction(7, 0, 10), bid(7, 1, price=5, at=1), bid(7, 2, price=5, at=3), bid(7, 3, price=9, at=11)]
    assert [row[11:13] for row in rows(q9, events, tmp_path, parallelism=1)] == [(1, 5)]
    events = [auction(7, 0, 10), bid(7, 1, price=5, at=1), bid(7, 4, price=6, at=10), bid(7, 3, price=9, at=11)]
    assert [row[11:13] for row in rows(q9, events, tmp_path, parallelism=1)] == [(4, 6)]


def test_bids_that_come_before_their_auction_count_if_they_were_not_made_before_it(tmp_path):
    from queries.winning import q9

    events = [bid(7, 1, price=9, at=4), bid(7, 2, price=5, at=5), auction(7, 5, 9), bid(1, at=6)]
    assert [row[11:13] for row in rows(q9, events, tmp_path, parallelism=1)] == [(2, 5)]


def test_auctions_and_bids_that_are_equally_hot_are_all_told(tmp_path):
    from queries.windowed import q5, q7

    events = [bid(1, price=3), bid(1, price=3, at=5), bid(2, price=3), bid(2, price=2), bid(3)]
    assert Counter(rows(q5, events, tmp_path)) == {(1, 2): 5, (2, 2): 5}
    assert sorted(row[:4] for row in rows(q7, events, tmp_path)) == [(1, 1, 3, 0), (1, 1, 3, 5), (2, 1, 3, 0)]


def test_the_ranks_of_an_auction_are_those_of_the_last_word(tmp_path):
    from checking import last_of_each
    from queries.ranking import q19

    events = [bid(1, price=price, at=at) for at, price in enumerate([3, 9, 1, *range(20, 31)])]
    told = last_of_each(rows(q19, events, tmp_path), 2)
    assert sorted((row[1], row[3]) for row in told) == [(rank, 31 - rank) for rank in range(1, 11)]


def test_the_check_takes_what_is_right_and_nothing_else():
    from checking import WrongResult, compare, last_of_each, without_clock

    right = [("a", 1), ("a", 1), ("b", 2)]
    assert compare("q", right[::-1], right) == 3
    for wrong in (right[1:], [*right, ("a", 1)], [*right[1:], ("c", 1)]):
        with pytest.raises(WrongResult, match="q: of 3 rows"):
            compare("q", wrong, right)
    with pytest.raises(WrongResult, match="proves nothing"):
        compare("q", [], [])
    assert last_of_each([("a", 1), ("b", 1), ("a", 2)], 1) == [("a", 2), ("b", 1)]

    good = [(1, 3, 10_000, 20_000), (2, 1, 10_000, 20_000), (1, 4, 20_000, 30_000)]
    assert without_clock("q", good, begin=15_000, end=25_000) == [(1, 7), (2, 1)]
    for window in (good[0], (3, 1, 0, 10_000), (3, 1, 15_000, 25_000), (3, 1, 30_000, 40_000)):
        with pytest.raises(WrongResult):
            without_clock("q", [*good, window], begin=15_000, end=25_000)


def test_each_query_has_a_reference():
    from queries.catalogue import ALL, QUERIES
    from reference import QUERIES as REFERENCES

    assert list(QUERIES) == list(ANSWERS) == [f"q{number}" for number in range(24)]
    assert {*ALL} == {*REFERENCES}


def test_a_digest_depends_on_every_field_and_not_on_the_order():
    from golden import digest

    rows = [(1, "a", Decimal("1.50")), (2, None, True)]
    assert digest(rows) == digest([(2, None, True), [1, "a", Decimal("1.5")]])
    assert digest(rows)[0] == 2
    for other in (rows[:1], [*rows, rows[0]], [(1, "a", Decimal("1.51")), rows[1]], [rows[0], (2, "", True)]):
        assert digest(other) != digest(rows)


# ---- what is kept, and the guide


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """The module that keeps figures, on a machine of its own."""
    import book

    monkeypatch.setattr(book, "RESULTS", tmp_path)
    monkeypatch.setattr(book, "machine", lambda: "a machine")
    monkeypatch.setattr(book, "versions", lambda: {"python": "3"})
    monkeypatch.setattr(book, "commit", lambda: "abc")
    return book


FIGURES = {"events_per_s": 1234.5, "events": 10, "runs": 3, "parallelism": 2, "rows_checked": 7, "others": 0.0}


def test_figures_are_kept_by_query_and_not_beside_those_of_another_machine(kept, monkeypatch):
    kept.keep("local", "q5", FIGURES)
    kept.keep("local", "q0", FIGURES | {"events_per_s": 1.0})
    kept.keep("local", "q5", FIGURES | {"events_per_s": 2.0})
    document = kept.load("local")
    assert {name: each["events_per_s"] for name, each in document["queries"].items()} == {"q0": 1.0, "q5": 2.0}
    assert (document["mode"], document["machine"], document["versions"]) == ("local", "a machine", {"python": "3"})
    assert document["queries"]["q5"]["commit"] == "abc"

    monkeypatch.setattr(kept, "machine", lambda: "another")
    kept.keep("local", "q1", FIGURES)
    assert list(kept.load("local")["queries"]) == ["q1"]


def test_the_guide_gets_a_column_per_mode_and_says_what_failed(kept, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- measured: results -->\nold\n<!-- end -->\nAfter.\n")
    kept.into_page(page, {mode: kept.load(mode) for mode in kept.MODES})
    assert "old" in page.read_text(), "nothing was measured yet"

    kept.keep("local", "q0", FIGURES)
    kept.keep("continuous", "q0", {**FIGURES, "seconds": 9.7, "others": 0.5})
    kept.keep("continuous", "q5", {"failed": "WrongResult: q5: of 3 rows", "parallelism": 2})
    documents = {mode: kept.load(mode) for mode in kept.MODES}
    kept.into_page(page, documents)
    assert page.read_text() == (
        "Before.\n<!-- measured: results -->\n"
        "| events/s | local | continuous | rows compared |\n| --- | ---: | ---: | ---: |\n"
        "| q0 pass through | 1,234 | 1,234 | 7 |\n| q5 hot items | - | **failed** | 0 |\n"
        "<!-- end -->\nAfter.\n"
    )
    told = kept.origin({mode: document for mode, document in documents.items() if document["queries"]})
    assert "10 events from the start of the job to its end, the median of 3" in told
    assert "about 10 s of a job without end" in told
    assert "q5 has no figure: WrongResult: q5: of 3 rows" in told
    assert "Other programs used 25% of the cores" in told


def test_the_guide_names_every_query_and_has_a_place_for_the_figures():
    from book import GUIDE
    from queries.catalogue import QUERIES
    from report import BEGIN

    text = GUIDE.read_text()
    for name, query in QUERIES.items():
        assert f"| {name} {query.title} |" in text
    for section in ("results", "origin"):
        assert BEGIN.format(section) in text


def test_of_a_closed_auction_and_of_bids_that_cannot_count_nothing_is_kept():
    from queries.winning import Winners

    from funken.operators.process.two_inputs import KeyedCoProcess
    from funken.operators.user_functions import UserFunction
    from funken.testing import OperatorHarness

    spec = KeyedCoProcess(
        UserFunction(Winners(), None, rich=True), UserFunction(lambda a: a.id), UserFunction(lambda b: b.auction)
    )
    harness = OperatorHarness(spec, keyed=True)
    nothing = harness.snapshot()["keyed"].groups
    harness.feed_second(bid(7, at=3), 3)
    assert harness.snapshot()["keyed"].groups != nothing
    harness.watermark(3)
    assert harness.snapshot()["keyed"].groups == nothing
    harness.feed(auction(7, 4, 9), 4)
    harness.feed_second(bid(7, at=9), 9)
    harness.watermark(9)
    harness.feed_second(bid(7, at=10), 10)
    harness.watermark(10)
    assert harness.output == [(auction(7, 4, 9), bid(7, at=9))]
    assert harness.snapshot()["keyed"].groups == nothing


def whole_files(tmp_path):
    """Return streams of two files of a kind, which take turns in time."""
    from files import write_events
    from streams import ParquetStreams

    def streams(env, nexmark, count, folder):
        write_events(nexmark, count, tmp_path / "events", 2)
        return ParquetStreams(env, tmp_path / "events", folder, whole=True)

    return streams


@pytest.mark.ways("local")
@pytest.mark.parametrize("name", ["q5", "q9", "q11"], ids=["windows", "timers", "sessions"])
def test_it_does_from_files_that_take_turns_when_each_has_a_reader(name, environment, tmp_path):
    same_as_duckdb(name, environment, tmp_path, whole_files(tmp_path))


def test_files_that_take_turns_are_each_in_order_and_have_every_event_once(tmp_path):
    import pyarrow.parquet as pq
    from events import Bid, Nexmark
    from files import folder_of, write_events

    write_events(Nexmark(), 1000, tmp_path / "one")
    write_events(Nexmark(), 1000, tmp_path / "two", 2)
    (whole,) = folder_of(tmp_path / "one", Bid).iterdir()
    parts = [pq.read_table(path).to_pylist() for path in folder_of(tmp_path / "two", Bid).iterdir()]
    assert len(parts) == 2
    assert all(part == sorted(part, key=lambda row: row["date_time"]) for part in parts)
    together = sorted((row for part in parts for row in part), key=lambda row: tuple(row.values()))
    assert together == sorted(pq.read_table(whole).to_pylist(), key=lambda row: tuple(row.values()))


def test_flink_has_every_query_that_it_can_run():
    from flink_queries import CANNOT, QUERIES, UNCHECKED
    from queries.catalogue import QUERIES as OURS

    assert {*QUERIES, *CANNOT} == set(OURS)
    assert not set(QUERIES) & set(CANNOT)
    assert set(UNCHECKED) <= set(QUERIES)


def test_the_mean_is_over_the_queries_that_both_systems_were_measured_with():
    from beside_page import mean, ratios

    def figures(speed):
        return {"events_per_s": speed} if speed else {"failed": "wrong"}

    speeds = {"q0": (4.0, 2.0), "q1": (1.0, 2.0), "q2": (0, 2.0), "q3": (9.0, 0)}
    document = {"queries": {name: {"a": figures(a), "b": figures(b)} for name, (a, b) in speeds.items()}}
    assert ratios(document, "a", ("b",)) == {"q0": 2.0, "q1": 0.5}
    assert mean(ratios(document, "a", ("b",))) == pytest.approx(1.0)


def test_of_two_variants_the_better_one_counts():
    from beside_page import FLINK, comparison, ratios

    def figures(speed):
        of_jobs = {"together": 1, "few": 10, "many": 50, "others": 0.0, "commit": "abc", "at": "2026-01-02T03:04:05Z"}
        return {"events_per_s": speed, "events_per_cpu_s": 100, **of_jobs}

    mini = f"{FLINK}-mini-batches"
    queries = {
        "q0": {FLINK: figures(1000), "funken": figures(2000)},
        "q16": {FLINK: figures(1000), mini: figures(4000), "funken": figures(2000)},
        "q17": {FLINK: figures(1000), mini: {"failed": "wrong"}, "funken": figures(2000)},
    }
    assert ratios({"queries": queries}, "funken") == {"q0": 2.0, "q16": 0.5, "q17": 2.0}
    said = comparison({"machine": "Linux", "parallelism": 2, "versions": {}, "queries": queries})
    assert "| Flink SQL | Flink SQL, mini-batches | Funken | Funken / better Flink |" in said
    assert "| q0 pass through | 1,000 | - | 2,000 | 2.00 |" in said
    assert "| q16 channel statistics report | 1,000 | 4,000 | 2,000 | 0.50 |" in said


def test_the_topics_have_every_event_once_and_in_order_in_their_partitions():
    from events import Auction, Bid, Nexmark, Person
    from topics import messages, topic_of

    nexmark, found = Nexmark(), {}
    for topic, _, value, partition in messages(nexmark, 1000, "few", 2):
        found.setdefault((topic, partition), []).append(json.loads(value))
    kinds = {topic_of("few", kind): kind for kind in (Person, Auction, Bid)}
    assert set(found) == {(topic, partition) for topic in kinds for partition in (0, 1)}
    assert all(documents == sorted(documents, key=lambda each: each["date_time"]) for documents in found.values())
    events = Counter(kinds[topic](**each) for (topic, _), documents in found.items() for each in documents)
    assert events == Counter(map(nexmark.event, range(1000)))


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """What a call of the comparison keeps its figures by."""
    import argparse

    import beside

    monkeypatch.setattr(beside, "machine", lambda: "a machine")
    monkeypatch.setattr(beside.book, "versions", lambda: {"python": "3"})
    monkeypatch.setattr(beside.book, "commit", lambda: "abc")
    return argparse.Namespace(file=tmp_path / "beside.json", parallelism=2, fewer=10, events=50, resume=True)


def test_a_comparison_goes_on_where_it_was_left(measured, monkeypatch):
    import beside

    done = {"events_per_s": 9, "few": 10, "many": 50}
    beside.keep("q0", "funken", done, measured)
    beside.keep("q0", "flink-sql", {"failed": "late"}, measured)
    beside.keep("q6", "flink-sql", {"cannot": "refused"}, measured)
    beside.keep("q1", "funken", done | {"many": 20}, measured)
    queries, systems = ["q0", "q1", "q6", "q16"], ["flink-sql", "flink-sql-mini-batches", "funken"]
    left = {"q0": ["flink-sql"], "q1": ["flink-sql", "funken"], "q6": ["funken"], "q16": systems}
    assert beside.left_of(queries, systems, measured) == left

    measured.resume = False
    assert beside.left_of(["q0"], systems, measured) == {"q0": ["flink-sql", "funken"]}
    measured.resume = True
    monkeypatch.setattr(beside.book, "commit", lambda: "abd")
    assert beside.left_of(["q0"], systems, measured) == {"q0": ["flink-sql", "funken"]}


def test_the_table_beside_flink_has_the_mean_and_says_what_has_no_figure():
    from beside_page import comparison

    def figures(speed, cpu):
        of_jobs = {"together": 1, "few": 10, "many": 50, "others": 0.5, "commit": "abc", "at": "2026-01-02T03:04:05Z"}
        return {"events_per_s": speed, "events_per_cpu_s": cpu, **of_jobs}

    document = {
        "machine": "Linux",
        "parallelism": 2,
        "versions": {"flink": "2"},
        "queries": {
            "q0": {"flink-sql": figures(1000, 100), "funken": figures(4000, 100)},
            "q1": {"flink-sql": figures(2000, 100), "funken": figures(2000, 400)},
            "q2": {"flink-sql": {"failed": "late"}, "funken": figures(2000, 400)},
            "q6": {"flink-sql": {"cannot": "refused"}, "funken": figures(100, 100)},
        },
    }
    said = comparison(document)
    assert "| q0 pass through | 1,000 | 4,000 | 4.00 |" in said
    assert "| q2 selection | **failed** | 2,000 | - |" in said
    assert "| geometric mean |  |  | **2.00** |" in said
    assert "compilers of a system included, 2.00; commit abc, 2026-01-02; flink 2." in said
    assert "Other programs used the cores meanwhile, 50% of those beside Flink SQL, 50% of those beside Funken" in said
    assert "* q6 has no figure: refused." in said
    assert "* Failed: q2 on Flink SQL." in said


def query_of(tree, name="q0"):
    """Run a query for the regression gate."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "benchmarks/nexmark_query.py"), name, str(tree)]
    return subprocess.run(
        [*command, "--events", "2000", "--seconds", "0.01"], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_gate_measures_a_query_of_a_tree():
    done = query_of(ROOT)
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout)["records_per_s"] > 0


def test_the_gate_refuses_a_query_with_a_wrong_result(tmp_path):
    shutil.copytree(BENCH, tmp_path / "benchmarks" / "nexmark")
    query = tmp_path / "benchmarks" / "nexmark" / "queries" / "stateless.py"
    text = query.read_text()
    query.write_text(
        text.replace("bid.auction, bid.bidder, bid.price, bid.date_time", "1, bid.bidder, bid.price, bid.date_time")
    )
    done = query_of(tmp_path)
    assert done.returncode
    assert "wrong result" in done.stderr
