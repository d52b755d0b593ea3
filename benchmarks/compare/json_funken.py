"""Runner: Funken in continuous mode, from lines of JSON.

Variant ``lambdas``: dicts, one by one; ``dicts``: the same program as columns; ``vectorised``: with a declared record type.
"""

from __future__ import annotations

from dataclasses import replace

import json_common
from funken_python import environment, readings
from protocol import Spec, answer, spec, unsupported, watch

from funken import (
    DataStream,
    DiscardingSink,
    FileSource,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from funken.connectors import JsonSchema
from funken.connectors.files.line_files import LineFormat

ORDER = Types.ROW_NAMED(
    ["id", "user", "price", "at", "note"],
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.LONG(), Types.STRING()],
)
WHOLE = 1 << 40


def build(env: StreamExecutionEnvironment, wanted: Spec, which: str) -> DataStream:
    """Add the program; a file is read by one subtask, as the order of its lines is that of time."""
    lines = LineFormat(JsonSchema(ORDER if wanted.variant == "vectorised" else None))
    source = FileSource.for_format(lines, json_common.folder(which)).set_split_bytes(WHOLE).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda order, _: order["at"])
    dear = env.from_source(source, strategy, "orders").filter(lambda order: order["price"] >= 12)
    windows = dear.map(lambda order: (order["user"], 1)).key_by(lambda pair: pair[0])
    return windows.window(SlidingEventTimeWindows.of(5000, 1000)).reduce(lambda a, b: (a[0], a[1] + b[1]))


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    columns = wanted.variant != "lambdas"
    with_columns = replace(wanted, variant="vectorised") if columns else wanted
    with build(environment(with_columns, "checked"), wanted, json_common.CHECKED).execute_and_collect() as found:
        number = json_common.check(found)
    results = build(environment(with_columns, "measured"), wanted, json_common.MEASURED)
    results.sink_to(DiscardingSink()).name("discard")
    env = results.get_execution_environment()
    if columns and "columns: orders: vectorized" not in env.explain():
        unsupported("the source produces no columns; explain() says why")
    client = env.execute_async("json")
    try:  # where they are read, as in grep
        answer({"checked": number, **watch(lambda: readings(client, "grep"), wanted, json_common.total())})
    finally:
        client.cancel().result(60)


if __name__ == "__main__":
    main()
