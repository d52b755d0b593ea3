"""Runner: throughput over time while workers and the driver are killed (``benchmarks/chaos.py``, which checks the output).

There is no figure unless every event is in the output exactly once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from protocol import answer, spec

SCRIPT = Path(__file__).parent.parent / "chaos.py"


def main() -> None:
    """Run and answer."""
    wanted = spec()
    seconds = max(20.0, 4 * wanted.seconds)
    figures = Path(wanted.folder, "chaos.json")
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "--seconds", str(seconds), "--json", str(figures)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=400, check=False)
    sys.stderr.write(done.stdout)
    if done.returncode:
        raise SystemExit(done.returncode)
    found = json.loads(figures.read_text())
    lines = [
        f"{found['events']:,} events, exactly once. Seconds from a kill to the first new output: "
        f"workers {', '.join(f'{s:.1f}' for s in found['workers'])}; driver {found['driver']:.1f}."
    ]
    answer({"details": lines, **found})


if __name__ == "__main__":
    main()
