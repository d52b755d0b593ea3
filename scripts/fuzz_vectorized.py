"""Random functions, also with state, windows and records: kernels give what Python gives, or leave the block to it.

``make fuzz-vectorized CASES=100000 SEED=1``. One case alone:
``python scripts/fuzz_vectorized.py --seed 1 --first 4711 --count 1``.
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.traced.flat_maps import FlatMapFuzzer
from tests.support.traced.functions import Difference, FunctionFuzzer
from tests.support.traced.states import StateFuzzer
from tests.support.traced.windows import BatchFuzzer, WindowFuzzer

_PROGRESS_SECONDS = 10
_REASONS = 12
_SLOW = 4
"""One case of windows, or of state, costs as much as so many others."""


def main() -> int:
    """Run; return how the shell is to see it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="other cases")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["FUNKEN_RAISE_FAULTS"] = "1"  # a fault of a kernel is a finding, though the rows are right
    findings = 0
    fuzzers: list[tuple[str, _Fuzzer, int]] = [
        ("map", FunctionFuzzer(arguments.seed), 1),
        ("flat_map", FlatMapFuzzer(arguments.seed), 1),
        ("state", StateFuzzer(arguments.seed), _SLOW),
        ("windows", WindowFuzzer(arguments.seed), _SLOW),
        ("whole blocks", BatchFuzzer(arguments.seed), 1),
    ]
    for what, fuzzer, costs in fuzzers:
        findings += _run(what, fuzzer, arguments.first, max(1, arguments.count // costs))
    return 1 if findings else 0


_Fuzzer = FunctionFuzzer | FlatMapFuzzer | StateFuzzer | WindowFuzzer | BatchFuzzer


def _run(what: str, fuzzer: _Fuzzer, first: int, count: int) -> int:
    findings = list[Difference]()
    begin = told = time.monotonic()
    for done, case in enumerate(range(first, first + count), 1):
        finding = fuzzer.run(case)
        if finding is not None:
            findings.append(finding)
            print(f"{what}, case {finding.case}: {finding.fact[:600]}\n{finding.source}\n", flush=True)
        if time.monotonic() - told > _PROGRESS_SECONDS or done == count:
            told = time.monotonic()
            print(f"{what}: {done} cases, {len(findings)} failing; {told - begin:.0f} s", flush=True)
    print("blocks and functions:", ", ".join(f"{count} {what}" for what, count in fuzzer.counts.most_common()))
    for reason, times in fuzzer.refusals.most_common(_REASONS):
        print(f"{times:7}  {reason}")
    return len(findings)


if __name__ == "__main__":
    sys.exit(main())
