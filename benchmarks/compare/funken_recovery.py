"""Runner: throughput over time while workers and the driver are killed (``benchmarks/chaos``, which checks the output).

There is no figure unless every event is in the output exactly once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from protocol import answer, spec

SCRIPT = Path(__file__).parent.parent / "chaos"


def main() -> None:
    """Run and answer."""
    wanted = spec()
    rounds = max(3, round(wanted.seconds / 5))
    figures = Path(wanted.folder, "chaos.json")
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "--only", "worker killed,driver killed"]
    command += ["--rounds", str(rounds), "--json", str(figures)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900, check=False)
    sys.stderr.write(done.stdout)
    if done.returncode:
        raise SystemExit(done.returncode)
    found = json.loads(figures.read_text())
    found["kills"] = [(at, name.removesuffix(" killed")) for at, name, _ in found["faults"]]
    for who in ("worker", "driver"):
        found[who] = [seconds for _, name, seconds in found["faults"] if name.startswith(who)]
    lines = [
        f"{found['events']:,} events, exactly once. Seconds from a kill to the first new output: "
        f"workers {', '.join(f'{s:.1f}' for s in found['worker'])}; driver {', '.join(f'{s:.1f}' for s in found['driver'])}."
    ]
    answer({"details": lines, **found})


if __name__ == "__main__":
    main()
