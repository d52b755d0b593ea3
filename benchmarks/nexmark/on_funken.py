"""Runs a query on Funken, from Parquet files or Kafka: the other side of ``on_flink.py``, with the same arguments and answers.

``options`` are Funken's, with ``execution.target``. All jobs share a session of Spark: the first ones start it and its workers.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

from checking import results
from queries.catalogue import QUERIES
from streams import KafkaStreams, ParquetStreams

from funken import Configuration, DiscardingSink, FunkenError, StreamExecutionEnvironment


def done(conf: Configuration, servers: str, what: str, name: str, events: str, folder: Path) -> dict[str, Any]:
    """Do a task, in a folder of its own."""
    query, found, seconds = QUERIES[name], list[Any](), 0.0
    folder.mkdir()
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    streams = (
        KafkaStreams(env, servers, events, str(folder))
        if servers
        else ParquetStreams(env, Path(events), str(folder), whole=True)
    )
    if what == "rows":
        found = list(map(tuple, results(query, env, streams)))
        (folder.parent / f"{name}.pickle").write_bytes(pickle.dumps(found))
    else:
        query.program(streams).sink_to(query.sink(str(folder)) if query.sink else DiscardingSink())
        begin = time.perf_counter()
        env.execute(query.name)
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "rows": len(found)}


def main() -> None:
    """Do what is asked for, one task for each line of input."""
    wanted = json.loads(sys.argv[1])
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # Spark's workers find the programs' modules by it
    conf = Configuration(wanted["options"] | {"parallelism.default": wanted["parallelism"]})
    for number, task in enumerate(wanted["tasks"]):
        sys.stdin.readline()
        try:
            answer = done(conf, wanted["servers"], *task, Path(wanted["folder"], f"{number}"))
        except FunkenError as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:3000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
