"""Does the REST API cost the job anything? p99 of a continuous job with and without requests at a fixed rate, in turns.

``python benchmarks/rest_load.py --requests 2000 --seconds 20 --turns 3``. Requests come from a process of their own, over kept
connections, for what the dashboard asks for (``/jobs/:jobid/snapshot``) and for small answers, half and half.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from urllib.parse import urlsplit

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy

CONNECTIONS = 8
SETTLE_SECONDS = 6.0  # rates and percentiles are about the last 5 s


async def connection(host, port, paths, rate, until, counts):
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


def load(url, job, rate, seconds, results):
    """Send requests for so long, and report how many were answered."""
    address = urlsplit(url)
    paths = [f"/jobs/{job}/snapshot", "/jobs/overview", f"/jobs/{job}", f"/jobs/{job}/snapshot"]
    counts = {"ok": 0, "other": 0}

    async def run():
        until = time.perf_counter() + seconds
        each = rate / CONNECTIONS
        await asyncio.gather(
            *(connection(address.hostname, address.port, paths, each, until, counts) for _ in range(CONNECTIONS))
        )

    asyncio.run(run())
    results.put(counts)


def p99_of(client):
    job = client.snapshot()
    found = [subtask.metrics.latency_p99 for subtask in job.vertices[-1].subtasks]
    rates = sum(subtask.metrics.records_in_per_second for subtask in job.vertices[-1].subtasks)
    return max((each for each in found if each is not None), default=float("nan")), rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="per second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--records", type=int, default=5000, help="per second")
    parser.add_argument("--target", default="continuous")
    options = parser.parse_args()

    configuration = Configuration(
        {"execution.target": options.target, "parallelism.default": 1, "rest.enabled": "true"}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(lambda index: (index % 100, 1), None, options.records)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    sums = numbers.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    sums.for_each(lambda pair: None)
    client = env.execute_async("under requests")
    context = multiprocessing.get_context("spawn")
    measured = {"quiet": [], "loaded": []}
    answered = []
    try:
        time.sleep(30.0)  # workers start, and the JVM compiles
        for _ in range(options.turns):
            for kind, samples in measured.items():
                results = context.Queue()
                process = None
                if kind == "loaded":
                    arguments = (
                        client.get_web_interface_url(),
                        client.get_job_id(),
                        options.requests,
                        options.seconds,
                        results,
                    )
                    process = context.Process(target=load, args=arguments)
                    process.start()
                time.sleep(SETTLE_SECONDS)
                end = time.perf_counter() + options.seconds - SETTLE_SECONDS - 1
                while time.perf_counter() < end:
                    samples.append(p99_of(client))
                    time.sleep(0.5)
                if process is not None:
                    counts = results.get(timeout=60)
                    process.join()
                    answered.append(counts["ok"] / options.seconds)
                    assert counts["other"] == 0, counts
    finally:
        client.cancel().result(timeout=60)
    figures = {
        kind: {
            "p99_ms_median": round(statistics.median(p99 for p99, _ in found), 1),
            "p99_ms_max": round(max(p99 for p99, _ in found), 1),
            "records_per_second": round(statistics.median(rate for _, rate in found)),
        }
        for kind, found in measured.items()
    }
    figures["requests_per_second"] = [round(each) for each in answered]
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
