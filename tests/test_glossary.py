"""The glossary and the map of the architecture are true: every module and class that they name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "funken"
MODULE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")
CLASS = re.compile(r"`([A-Z][A-Za-z]+)`")


def classes():
    """Classes of the package, and names that modules assign something to; by their text, as to parse all takes seconds."""
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    return set(
        re.findall(r"^\s*class (\w+)", text, re.MULTILINE) + re.findall(r"^(\w+)(?:: \w+)? = ", text, re.MULTILINE)
    )


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/glossary.md"])
def test_a_module_that_is_named_exists(page):
    named = set(MODULE.findall((ROOT / page).read_text()))

    assert named
    assert {name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()} == set()


def test_a_class_of_the_glossary_exists():
    third = [
        line.split("|")[3] for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.count("|") == 5
    ]

    assert {name for cell in third for name in CLASS.findall(cell)} - classes() == set()
