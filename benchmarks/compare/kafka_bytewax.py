"""Runner: Bytewax from Kafka, a process per core; the standard library parses the JSON, as in Funken's runner."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import bytewax.operators as op
import kafka_common
from bytewax._bytewax import cli_main
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax_python import Count, Write, reduce
from protocol import Reading, Spec, answer, spec, watch

PORT = 21320
BATCH = 5000


def build(topic: str, tail: bool, folder: str = "", metrics: str = "") -> Dataflow:
    """Make the program."""
    flow = Dataflow("kafka")
    client = kafka_common.CLIENT
    source = KafkaSource([kafka_common.servers()], [topic], tail=tail, batch_size=BATCH, add_config=client)
    orders = op.map("orders", op.input("messages", flow, source), lambda message: json.loads(message.value))
    pairs = op.map("pairs", orders, lambda order: (order["user"], 1))
    results = op.stateful_map("reduce", pairs, reduce)
    op.output("out", results, Write(folder) if folder else Count(metrics, len, None, 1))
    return flow


def workers(wanted: Spec, phase: str, port: int) -> list[subprocess.Popen[bytes]]:
    """Start the processes of the cluster."""
    command = [sys.executable, __file__, wanted.dump(), phase, str(port)]
    return [subprocess.Popen([*command, str(index)], stdout=sys.stderr) for index in range(wanted.parallelism)]


def work(wanted: Spec, phase: str, port: int, index: int) -> None:
    """Be a process of the cluster."""
    if phase == "check":
        flow = build(kafka_common.CHECKED, False, folder=f"{wanted.folder}/checked")
    else:
        flow = build(kafka_common.MEASURED, True, metrics=f"{wanted.folder}/metrics")
    addresses = [f"127.0.0.1:{port + i}" for i in range(wanted.parallelism)]
    cli_main(flow, process_id=index, addresses=addresses, workers_per_process=1)


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    if sys.argv[2:]:
        work(wanted, sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    checked = Path(wanted.folder, "checked")
    checked.mkdir()
    for process in workers(wanted, "check", PORT):
        if process.wait(120):
            raise SystemExit("a worker failed")
    lines = [json.loads(line) for path in checked.iterdir() for line in path.read_text().splitlines()]
    number = kafka_common.check([(key, count) for key, count in lines], wanted.keys)

    def read() -> Reading | None:
        newest = [path.read_text().rstrip("\n").rsplit("\n", 2)[-1:] for path in Path(wanted.folder).glob("metrics-*")]
        found = [json.loads(text) for lines in newest for text in lines if text.endswith("]")]
        return (max(at for at, _, _ in found), sum(count for _, count, _ in found), {}) if found else None

    cluster = workers(wanted, "measure", PORT + 10)
    try:
        answer({"checked": number, **watch(read, wanted, kafka_common.total())})
    finally:
        for process in cluster:
            process.kill()
        for process in cluster:
            process.wait(30)


if __name__ == "__main__":
    main()
