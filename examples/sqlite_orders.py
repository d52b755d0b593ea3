"""Which orders were paid within ten seconds? A source, an exactly-once sink and an operator with two inputs, for SQLite."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass

import funken
from funken.connectors import NEED_SPLITS, Batch, Committer, StaticSplits
from funken.sdk import KeyedOperator


@dataclass(frozen=True)
class TableSource(funken.Source):
    """The rows of a table by ascending id, from the first to the last; a split is the id of the last row that was read."""

    path: str
    table: str
    max_parallelism = 1

    def enumerator(self, parallelism):
        return StaticSplits([0], parallelism)

    def reader(self, context):
        return TableReader(self)


class TableReader(funken.SourceReader):
    def __init__(self, source):
        self.last_id, self.source = None, source

    def add_splits(self, splits):
        [self.last_id] = splits

    def poll(self, limit, now):
        if self.last_id is None:
            return NEED_SPLITS
        query = f"SELECT * FROM {self.source.table} WHERE id > ? ORDER BY id LIMIT ?"
        with closing(sqlite3.connect(self.source.path)) as db:
            rows = db.execute(query, (self.last_id, limit)).fetchall()
        self.last_id = rows[-1][0] if rows else None
        return Batch(rows) if rows else NEED_SPLITS

    def snapshot_state(self, checkpoint_id):
        return [] if self.last_id is None else [self.last_id]


@dataclass(frozen=True)
class TableSink(funken.Sink, Committer):
    """Inserts the pairs of each checkpoint in one transaction, which also notes that they are in."""

    path: str
    note = "INSERT OR IGNORE INTO committed VALUES (?)"

    def writer(self, context):
        return TableWriter()

    def committer(self, context):
        return self

    def commit(self, requests):
        for request in requests:
            key = f"{request.job_id}/{request.operator_uid}/{request.subtask}/{request.checkpoint_id}"
            with closing(sqlite3.connect(self.path)) as db, db:
                if request.checkpoint_id is None or db.execute(self.note, (key,)).rowcount:  # else it was repeated
                    db.executemany("INSERT INTO results VALUES (?, ?)", request.committable)


class TableWriter(funken.SinkWriter):
    def open(self):
        self.rows = []

    def write(self, values, timestamps, now):
        self.rows += values

    def prepare_commit(self, checkpoint_id, end_of_input):
        rows, self.rows = self.rows, []
        return [rows] if rows else []


class MatchPayments(KeyedOperator):
    def open(self):
        self.item = self.state(funken.ValueStateDescriptor("item"))
        self.paid = self.state(funken.ValueStateDescriptor("paid", default=False))

    def process_element(self, order, timestamp):
        self.item.update(order[1])
        self.register_event_time_timer(timestamp + 10_000)

    def process_element2(self, payment, timestamp):
        self.paid.update(True)

    def on_event_time(self, timestamp):
        self.emit((self.item.value(), "paid" if self.paid.value() else "unpaid"))


def program(env, path, wrap=lambda source: source):
    by_time = funken.WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[2])
    orders = env.from_source(wrap(TableSource(path, "orders")), by_time, "orders").uid("orders")
    payments = env.from_source(wrap(TableSource(path, "payments")), by_time, "payments").uid("payments")
    matched = orders.connect(payments).key_by(lambda row: row[1], lambda row: row[1]).transform("match", MatchPayments)
    matched.uid("match").sink_to(TableSink(path)).uid("results")


def create(path, count):
    with closing(sqlite3.connect(path)) as db, db:
        for table, every in ("orders", 1), ("payments", 2):
            db.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, item TEXT, at INTEGER)")
            rows = ((n, f"order-{n}", n * 1000) for n in range(1, count + 1, every))
            db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
        db.executescript("CREATE TABLE results (item, state); CREATE TABLE committed (id PRIMARY KEY)")


if __name__ == "__main__":
    create("shop.db", count=5)
    env = funken.StreamExecutionEnvironment.get_execution_environment()
    program(env, "shop.db")
    env.execute("match payments")
    with closing(sqlite3.connect("shop.db")) as db:
        print(*db.execute("SELECT item, state FROM results ORDER BY item"), sep="\n")
