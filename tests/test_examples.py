"""Every example runs, without Spark and as the command line runs it, and prints what it should."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

PRINTED = {
    "wordcount.py": """\
(64, 'to', 5)
(65, 'to', 9)
(65, 'sleep', 4)
(66, 'to', 7)
(66, 'sleep', 4)
(67, 'to', 7)
(67, 'sleep', 4)
(68, 'to', 7)
(68, 'sleep', 4)
(69, 'to', 4)
""",
    "fraud.py": """\
visa: 800 at second 12 after 3 tests
amex: tested, but not used by second 80
""",
    "state_machine.py": """\
cam-2: send after boot at second 5
cam-1: halt after send at second 6
""",
    "silence.py": """\
cellar is silent since second 2
attic is silent since second 5
cellar is silent since second 14
attic is silent since second 31
cellar is silent since second 32
""",
    "sqlite_orders.py": """\
('order-1', 'paid')
('order-2', 'unpaid')
('order-3', 'paid')
('order-4', 'unpaid')
('order-5', 'paid')
""",
    "sessions.py": """\
unreadable> JSONDecodeError: {"user": "ada", "at": "2026-11-22T
ada 2 /prices
bob 1 /
ada 1 /
""",
    "top_n.py": """\
minute 1, place 1: tea, 3
minute 1, place 2: jam, 2
minute 2, place 1: rye, 3
minute 2, place 2: tea, 2
""",
    "late.py": """\
count> ada: 2 click(s) by second 10
count> ada: 3 click(s) by second 10
count> bob: 1 click(s) by second 20
count> bob: 2 click(s) by second 20
too late> (2, 'ada')
count> bob: 1 click(s) by second 30
""",
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_prints_what_it_should(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "funken", "run", "--target", "local", "--parallelism", "1", path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED[path.name]


@pytest.mark.parametrize("name", ["fraud.py", "state_machine.py"])
def test_a_pattern_finds_the_same_in_two_subtasks(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "funken", "run", "--target", "local", "--parallelism", "2", EXAMPLES / name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(PRINTED[name].splitlines())
