"""Every example runs, as the command line runs it, at parallelism 1 and 2, and prints what it should."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
ON_SPARK = {"dataframes.py"}
"""Examples that cannot run without Spark."""

PRINTED = {
    "wordcount.py": """\
(64, 'to', 5)
(65, 'to', 9)
(66, 'to', 7)
(67, 'to', 7)
(68, 'to', 7)
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
mean> attic, minute 0, revision 1: 21.5
mean> cellar, minute 0, revision 1: 12.0
mean> cellar, minute 0, revision 2: 13.0
mean> attic, minute 1, revision 1: 23.0
mean> attic, minute 2, revision 1: 25.0
too old> Reading(second=55, device='cellar', celsius=15.0)
mean> cellar, minute 7, revision 1: 13.0
""",
    "card_rules.py": """\
second 4, amex: rule 'large', 1 payments, 900 in all
second 9, visa: rule 'many', 3 payments, 32 in all
second 65, amex: rule 'many', 2 payments, 810 in all
""",
    "enrichment.py": """\
order 1: ada, GB
order 2: bob, FI
order 3: ada, GB
order 4: eve, unknown
order 5: bob, FI
order 6: zoe, GR
""",
    "turnstiles/job.py": """\
stopped in between: True
passages: 6000 each counted once: True
north: 2000 passages, 1200 more in than out
south: 2000 passages, 1200 more in than out
west: 2000 passages, 1200 more in than out
""",
    "baskets.py": """\
butter and jam: 2 times, lift 2.67
milk and tea: 3 times, lift 2.00
sugar and tea: 2 times, lift 2.00
bread and butter: 3 times, lift 1.60
bread and jam: 2 times, lift 1.60
""",
    "scoring.py": """\
setosa: 25 predicted as setosa
versicolor: 25 predicted as versicolor
virginica: 2 predicted as versicolor
virginica: 23 predicted as virginica
""",
    "dataframes.py": """\
from the park: 1 rides of 20 minutes
from the port: 2 rides of 18 minutes
""",
}


ONE_KEY = {
    "card_rules.py": r"second \d+, (\w+)",
    "enrichment.py": r"order \d+: (\w+)",
    "fraud.py": r"(\w+):",
    "late.py": r"mean> (\w+)|(too old)",
    "silence.py": r"(\w+) is silent",
    "state_machine.py": r"([\w-]+):",
    "top_n.py": r"minute (\d+)",
}
"""Where the lines of one key only have an order at every parallelism, and how to find the key in a line."""


def run(name, folder, *options, timeout=200):
    done = subprocess.run(
        [sys.executable, "-m", "funken", "run", *options, EXAMPLES / name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def programs():
    return sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py"))


@pytest.mark.parametrize("name", sorted(PRINTED.keys() - ON_SPARK))
def test_an_example_prints_what_it_should(name, tmp_path):
    assert run(name, tmp_path, "--target", "local", "--parallelism", "1") == PRINTED[name]


def by_key(name, printed):
    """Return the lines by the key that they are about; all of them have one if the whole has an order."""
    found = defaultdict(list)
    for line in printed.splitlines():
        found[re.match(ONE_KEY[name], line).groups() if name in ONE_KEY else name].append(line)
    return found


@pytest.mark.parametrize("name", sorted(PRINTED.keys() - ON_SPARK))
def test_an_example_prints_the_same_lines_with_two_subtasks_those_of_a_key_in_order(name, tmp_path):
    printed = run(name, tmp_path, "--target", "local", "--parallelism", "2")

    assert by_key(name, printed) == by_key(name, PRINTED[name])


def test_the_page_about_the_examples_says_which_lines_have_an_order():
    said = (EXAMPLES / "README.md").read_text().partition("## In which order")[2]

    assert {each for each in PRINTED if each.partition("/")[0].removesuffix(".py") in said} == ONE_KEY.keys()


@pytest.mark.spark
@pytest.mark.timeout(260)
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_an_example_on_spark_prints_what_it_should(name, tmp_path):
    assert run(name, tmp_path, timeout=240) == PRINTED[name]


def test_every_example_is_run_and_described():
    modules = {"turnstiles/counting.py", "sql/sentiment.py"}
    described = re.findall(r"\]\((\S+\.(?:py|ipynb)|\S+)\)", (EXAMPLES / "README.md").read_text())
    notebooks = {path.name for path in EXAMPLES.glob("*.ipynb")}

    assert {*programs()} - modules == PRINTED.keys()
    assert PRINTED.keys() | notebooks <= {*described}


def shown(outputs):
    """Return the text of a cell's output: what was printed, and what its last expression is."""
    return ["".join(each.get("text", each.get("data", {}).get("text/plain", ""))) for each in outputs]


def test_the_notebook_shows_what_it_shows_when_it_is_executed():
    import nbformat
    from nbclient import NotebookClient

    path = EXAMPLES / "exploration.ipynb"
    stored = json.loads(path.read_text())
    notebook = nbformat.reads(path.read_text(), as_version=4)
    NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    ).execute()

    cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    executed = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [shown(cell["outputs"]) for cell in cells] == [shown(cell.outputs) for cell in executed]
    assert sum(bool(cell["outputs"]) for cell in cells) >= 5  # or there was nothing to compare
