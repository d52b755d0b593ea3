"""Runner: Python without an engine, the most that any engine can reach that calls Python's functions.

As many processes as there are parallel subtasks make the lines of grep and look at them, in a loop that does nothing else.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from multiprocessing.sharedctypes import Synchronized
from time import monotonic

import oracle
from protocol import Reading, answer, spec, unsupported, watch

BLOCK = 10_000


def kept(numbers: Iterable[int]) -> list[str]:
    """Return the lines that contain "999 "."""
    return [line for number in numbers if "999 " in (line := f"line {number} of the text")]


def work(index: int, step: int, done: Synchronized[int]) -> None:
    """Make lines without an end."""
    first = index
    while True:
        kept(range(first, first + BLOCK * step, step))
        first += BLOCK * step
        done.value += BLOCK


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    if wanted.program != "grep" or wanted.stamped or wanted.rate:
        unsupported("without an engine there is nothing that sends or stamps records")
    number = oracle.check("grep", kept(range(oracle.CHECKED)), wanted.keys)
    counts = [multiprocessing.Value("q", 0) for _ in range(wanted.parallelism)]
    workers = [
        multiprocessing.Process(target=work, args=(index, wanted.parallelism, count), daemon=True)
        for index, count in enumerate(counts)
    ]
    for worker in workers:
        worker.start()

    def read() -> Reading:
        return monotonic(), sum(count.value for count in counts), {}

    try:
        answer({"checked": number, **watch(read, wanted)})
    finally:
        for worker in workers:
            worker.kill()


if __name__ == "__main__":
    main()
