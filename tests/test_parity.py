"""``docs/parity.md`` is true: what it names exists, and so do the tests it points to."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "parity.md").read_text()
ROWS = [
    [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and "`tests/" in line
]


def resolve(name):
    parts = name.split(".")
    for length in range(len(parts), -1, -1):
        try:
            found = importlib.import_module(".".join(["funken", *parts[:length]]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ImportError(name)


@pytest.mark.parametrize("name", [name for _, names, _ in ROWS for name in names])
def test_the_name_exists(name):
    assert resolve(name) is not None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2][0])
def test_the_tests_exist(row):
    for path in row[2]:
        assert "def test_" in (ROOT / path).read_text()


def test_the_page_was_read():
    assert len(ROWS) > 30
