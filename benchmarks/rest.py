"""What the REST API costs a job: its p99 under requests at a rate, and its throughput while dashboards are open; in turns.

``python benchmarks/rest.py --requests 2000 --seconds 15 --rounds 4``. A round has one turn of each kind, in an order that
changes:

* ``quiet``: nobody asks;
* ``elsewhere``: the same requests to another process, which answers as many bytes: what the requests themselves cost;
* ``loaded`` or ``dashboard``: requests to the driver of the job.

Ratios are the medians of the rounds' own, with the lowest and the highest. Requests come from a process of their own, over kept
connections: half of them for what the dashboard asks for (``/jobs/:jobid/snapshot``), half for small answers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit

from funken import (
    Configuration,
    DataGeneratorSource,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.rest.client import RestClient

CONNECTIONS = 8
SETTLE_SECONDS = 6.0  # rates and percentiles are about the last 5 s
WARM_SECONDS = 30.0  # workers start, and the JVM compiles
DASHBOARD_PER_SECOND = 1.0


async def connection(host, port, paths, rate, until, counts):
    """Send requests one after the other, at a rate; a late one is not made up for by haste, but by the next."""
    reader, writer = await asyncio.open_connection(host, port)
    requests = [f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode() for path in paths]
    begin = time.perf_counter()
    sent = 0
    while (now := time.perf_counter()) < until:
        due = begin + sent / rate
        if due > now:
            await asyncio.sleep(due - now)
        writer.write(requests[sent % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        counts["ok" if head.startswith(b"HTTP/1.1 200") else "other"] += 1
        sent += 1
    writer.close()


def load(url, paths, rate, connections, seconds, results):
    """Send requests for so long, and report how many were answered."""
    address = urlsplit(url)
    counts = {"ok": 0, "other": 0}

    async def run():
        until = time.perf_counter() + seconds
        each = rate / connections
        sends = (connection(address.hostname, address.port, paths, each, until, counts) for _ in range(connections))
        await asyncio.gather(*sends)

    asyncio.run(run())
    results.put(counts)


def decoy(sizes, ready):
    """Answer any request with as many bytes as the job's driver would; runs until it is ended."""

    async def answer(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError):  # the other side is done
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = sizes.get(head.split(b" ", 2)[1].decode(), 100)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        writer.close()

    async def run():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def job(records, target):
    """Start the keyed job, paced or as fast as it goes; return its client."""
    conf = {"execution.target": target, "parallelism.default": 1, "rest.enabled": "true"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(conf))
    source = DataGeneratorSource(lambda n: n, None, records) if records else NumberSequenceSource(0, 2**62)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(lambda n: (n % 100, 1))
    sums = numbers.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    sums.for_each(lambda pair: None)
    return env.execute_async("under requests")


def observed(client, seconds):
    """Return the p99 (ms) and the records per second over a turn."""
    time.sleep(SETTLE_SECONDS)
    begin, first = time.perf_counter(), records_in(client)
    latencies = []
    while time.perf_counter() < begin + seconds:
        time.sleep(0.5)
        found = [subtask.metrics.latency_p99 for subtask in client.snapshot().vertices[-1].subtasks]
        latencies.append(max((each for each in found if each is not None), default=float("nan")))
    rate = (records_in(client) - first) / (time.perf_counter() - begin)
    return statistics.median(latencies), rate


def records_in(client):
    """Return how many records the last vertex has read."""
    return sum(subtask.metrics.records_in for subtask in client.snapshot().vertices[-1].subtasks)


def turns(records, kind, rate, connections, options):
    """Run one job through all rounds; return the turns by kind, and the answers per second."""
    context = multiprocessing.get_context("spawn")
    client = job(records, options.target)
    measured, answered = {"quiet": [], "elsewhere": [], kind: []}, []
    other = None
    try:
        time.sleep(WARM_SECONDS)
        url, job_id = client.get_web_interface_url(), client.get_job_id()
        snapshot = f"/jobs/{job_id}/snapshot"
        paths = [snapshot] if kind == "dashboard" else [snapshot, "/jobs/overview", f"/jobs/{job_id}", snapshot]
        sizes = {path: len(RestClient(url).forward("GET", path, b"", "")[2]) for path in paths}
        ready = context.Queue()
        other = context.Process(target=decoy, args=(sizes, ready), daemon=True)
        other.start()
        decoy_url = f"http://127.0.0.1:{ready.get(timeout=60)}"
        for number in range(options.rounds):
            kinds = list(measured)
            for each in kinds[number % 3 :] + kinds[: number % 3]:
                process, results = None, context.Queue()
                if each != "quiet":
                    target = decoy_url if each == "elsewhere" else url
                    seconds = SETTLE_SECONDS + options.seconds + 1
                    arguments = (target, paths, rate, connections, seconds, results)
                    process = context.Process(target=load, args=arguments)
                    process.start()
                measured[each].append(observed(client, options.seconds))
                if process is not None:
                    counts = results.get(timeout=60)
                    process.join(60)
                    if counts["other"]:
                        raise SystemExit(f"{counts['other']} requests were not answered with 200")
                    if each == kind:
                        answered.append(counts["ok"] / (SETTLE_SECONDS + options.seconds + 1))
    finally:
        if other is not None:
            other.terminate()
        client.cancel().result(timeout=60)
    return measured, answered


def ratios(measured, kind, base, what):
    """Return the median, the lowest and the highest of the rounds' ratios; ``what``: 0 for p99, 1 for throughput."""
    found = [one[what] / other[what] for one, other in zip(measured[kind], measured[base], strict=True)]
    return {"median": round(statistics.median(found), 3), "from": round(min(found), 3), "to": round(max(found), 3)}


def main():
    """Measure both, print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=float, default=2000, help="per second")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each turn, after it has settled")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--records", type=int, default=5000, help="per second, of the job whose p99 is measured")
    parser.add_argument("--dashboards", type=int, default=1, help="how many are open")
    parser.add_argument("--target", default="continuous")
    parser.add_argument("--only", default="", choices=["", "load", "dashboard"])
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    figures = {}
    if options.only != "dashboard":
        measured, answered = turns(options.records, "loaded", options.requests, CONNECTIONS, options)
        figures["requests"] = {
            "wanted_per_second": options.requests,
            "answered_per_second": round(statistics.median(answered)),
            "p99_ms": {kind: [round(p99, 2) for p99, _ in found] for kind, found in measured.items()},
            "p99_ratio_to_quiet": ratios(measured, "loaded", "quiet", 0),
            "p99_ratio_to_elsewhere": ratios(measured, "loaded", "elsewhere", 0),
        }
        print(json.dumps(figures["requests"]), flush=True)
    if options.only != "load":
        rate = DASHBOARD_PER_SECOND * options.dashboards
        measured, answered = turns(0, "dashboard", rate, options.dashboards, options)
        figures["dashboard"] = {
            "dashboards": options.dashboards,
            "records_per_second": {kind: [round(rate) for _, rate in found] for kind, found in measured.items()},
            "throughput_ratio": ratios(measured, "dashboard", "quiet", 1),
        }
        print(json.dumps(figures["dashboard"]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
