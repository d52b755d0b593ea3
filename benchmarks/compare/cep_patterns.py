"""Runner: a pattern of ``benchmarks/cep.py`` over bounded input, on one core; with Funken, or with Flink CEP in Java.

``options`` of the spec: the ``pattern``, the ``window`` in events of a key, and ``opaque`` for conditions that are only called.
Before Flink has a figure, its matches in the first events are counted and compared with Funken's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from protocol import answer, spec

sys.path.insert(0, str(Path(__file__).parents[1]))

import cep

A_SECOND = 50_000
"""How many events stand for a second of measuring."""


def main() -> None:
    """Run and answer."""
    wanted = spec()
    count, warmup = int(wanted.seconds * A_SECOND), int(wanted.warmup * A_SECOND / 2)
    name, window = wanted.options["pattern"], int(wanted.options.get("window", cep.EVENTS_OF_A_KEY))
    found = cep.measure(wanted.variant, (name, wanted.keys, warmup, count, window, "opaque" in wanted.options))
    if wanted.variant == "flink":
        ours = len(list(cep.results(name, wanted.keys, warmup, window).execute_and_collect(limit=warmup)))
        if ours != found["matches"]:
            raise SystemExit(f"{name}: {found['matches']} matches in {warmup} events, but {ours} with Funken")
    answer({"records_per_s": count / found["seconds"], "matches": found["matches"], "seconds": found["seconds"]})


if __name__ == "__main__":
    main()
