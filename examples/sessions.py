"""Visits from a log of JSON lines to a Parquet file: sessions in event time. Lines that cannot be read are kept, not lost."""

import json
import tempfile
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq

from funken import (
    EventTimeSessionWindows,
    FileSource,
    OutputTag,
    StreamExecutionEnvironment,
    StreamFormat,
    WatermarkStrategy,
)

LOG = """\
{"user": "ada", "at": "2026-11-22T08:00:00+00:00", "page": "/"}
{"user": "bob", "at": "2026-11-22T08:00:20+00:00", "page": "/"}
{"user": "ada", "at": "2026-11-22T08:05:00+00:00", "page": "/prices"}
{"user": "ada", "at": "2026-11-22T
{"user": "ada", "at": "2026-11-22T09:30:00+00:00", "page": "/"}
"""
UNREADABLE = OutputTag("unreadable")


def visit(user, window, clicks):
    pages = [click["page"] for click in clicks]
    yield {"user": user, "begin": window.start, "clicks": len(pages), "last": pages[-1]}


with tempfile.TemporaryDirectory() as folder:
    log, parquet = Path(folder, "clicks.jsonl"), Path(folder, "visits.parquet")
    log.write_text(LOG)

    env = StreamExecutionEnvironment.get_execution_environment()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(log)).build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "log")
    clicks = lines.map(json.loads).name("parse").on_error(UNREADABLE)
    unreadable = clicks.get_side_output(UNREADABLE).map(lambda letter: f"{letter.error}: {letter.record}")
    unreadable.print("unreadable").set_parallelism(1)

    by_time = WatermarkStrategy.for_bounded_out_of_orderness("10 s").with_timestamp_assigner(
        lambda click, _: datetime.fromisoformat(click["at"])
    )
    visits = (
        clicks.assign_timestamps_and_watermarks(by_time)
        .key_by(lambda click: click["user"])
        .window(EventTimeSessionWindows.with_gap("30 min"))
        .apply(visit)
    )
    pq.write_table(visits.to_arrow().sort_by("begin"), parquet)
    for row in pq.read_table(parquet).to_pylist():
        print(row["user"], row["clicks"], row["last"])
