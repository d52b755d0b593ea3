"""Every statement of the list of semantics has at least one test that names it, as ``test_s<number>_...``."""

import re
from pathlib import Path

STATEMENTS = range(1, 92)


def test_every_statement_is_named_by_a_test():
    named = set()
    for path in Path(__file__).parents[1].rglob("test_*.py"):
        for numbers in re.findall(r"def test_((?:s\d+_)+)", path.read_text()):
            named |= {int(number) for number in re.findall(r"\d+", numbers)}

    assert set(STATEMENTS) <= named, f"no test names {sorted(set(STATEMENTS) - named)}"
