"""Read damaged blocks, messages, manifests and state: each gives what is right, or an error of Funken's own.

``make fuzz COUNT=100000 SEED=1``. One case alone: ``python scripts/fuzz.py --seed 1 --first 4711 --count 1``.
No case may want more than 200 MB or take longer than 2 s.
"""

import argparse
import logging
import os
import resource
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.fuzzing import Finding, Fuzzer

_PROGRESS_SECONDS = 10
_WARM_UP = 300
_NET = 8 * 10**9
"""Bytes that the process may address: more than libraries reserve, and less than would end the machine."""


def main() -> int:
    """Run; return how the shell is to see it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="other cases")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    if os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"
    fuzzer, findings = Fuzzer(arguments.seed), list[Finding]()
    for case in range(-_WARM_UP, 0):  # what is loaded once, and the caches
        fuzzer.run(case)
    for counts in fuzzer.counts.values():
        counts.clear()
    begin = told = time.monotonic()
    resource.setrlimit(resource.RLIMIT_AS, (_NET, resource.getrlimit(resource.RLIMIT_AS)[1]))
    tracemalloc.start(1)
    for done, case in enumerate(range(arguments.first, arguments.first + arguments.count), 1):
        finding = fuzzer.run(case)
        if finding is not None:
            findings.append(finding)
            print(f"case {finding.case} ({finding.subject}): {finding.fact[:300]}", flush=True)
        if time.monotonic() - told > _PROGRESS_SECONDS or done == arguments.count:
            told = time.monotonic()
            print(f"{done} cases, {len(findings)} failing; {told - begin:.0f} s", flush=True)
    for name, counts in fuzzer.counts.items():
        facts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items(), key=lambda each: -each[1]))
        print(f"{name:15} {sum(counts.values()):7}  {facts}")
    print(f"slowest case {fuzzer.slowest * 1000:.0f} ms; largest {fuzzer.largest / 1e6:.1f} MB")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
