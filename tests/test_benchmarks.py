"""Benchmarks that need no other system run over few records. They compare their results themselves, and keep none here."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

COMMANDS = [
    "async_enrichment.py --seconds 0.5 --warmup 0.1 --rounds 1",
    "batch --edges 500 --words 500 --scale 0.001 --target local --only words --results {folder}/batch.json",
    "beyond_memory.py --gigabytes 0.001 --target local --results {folder}/beyond.json",
    "branches.py --records 500 --rounds 1",
    "cep.py --events 1000 --warmup 100 --keys 10",
    "checkpoint_cost.py 500 --changed 10 --round 500",
    "columns.py --records 100 --blocks 2",
    "declared_types.py --records 500 --rounds 1",
    "files.py --rows 500 --rounds 1 --systems funken,records",
    "functions.py --records 50",
    "lists.py --orders 500 --rounds 1",
    "micro.py --turns 1",
    "nexmark_query.py q5 {root} --events 2000 --seconds 0.1",
    "paths.py",
    "pre_aggregation.py --records 500 --turns 1",
    "startup.py --rounds 1 --targets local",
    "state_access.py",
    "text_columns.py --rows 500",
    "usual_programs.py --records 500 --rounds 1",
    "windows_on_columns.py --records 500 --rounds 1",
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_a_benchmark_runs_over_few_records(command, tmp_path):
    script, *arguments = command.format(folder=tmp_path, root=ROOT).split()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "benchmarks" / script, *arguments],
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )

    assert not done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout
