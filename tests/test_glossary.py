"""The glossary, the map of the architecture and the pages of its rooms are true: what they name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "funken"
MODULE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")
CLASS = re.compile(r"`([A-Z][A-Za-z]+)`")
LARGE = 28
"""A room of so many modules has a page."""
OTHERS = {"compat"}
"""Large, but without a structure of its own: it mirrors PyFlink's modules."""


def classes():
    """Classes of the package, and names that modules assign something to; by their text, as to parse all takes seconds."""
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    return set(
        re.findall(r"^\s*class (\w+)", text, re.MULTILINE) + re.findall(r"^(\w+)(?:: \w+)? = ", text, re.MULTILINE)
    )


ROOMS = sorted(room for room in SOURCE.iterdir() if len(list(room.rglob("*.py"))) >= LARGE and room.name not in OTHERS)


@pytest.mark.parametrize(
    "page", ["ARCHITECTURE.md", "docs/glossary.md", *(f"src/funken/{room.name}/README.md" for room in ROOMS)]
)
def test_a_module_that_is_named_exists(page):
    named = set(MODULE.findall((ROOT / page).read_text()))

    assert named
    places = (SOURCE, ROOT, (ROOT / page).parent)
    assert {name for name in named if not any((place / name).exists() for place in places)} == set()


def test_the_map_of_the_architecture_is_short_and_leads_to_the_rooms():
    text = (ROOT / "ARCHITECTURE.md").read_text()

    assert len(text.split()) <= 1500
    assert len(set(MODULE.findall(text))) <= 50
    assert {room.name for room in ROOMS if f"(src/funken/{room.name}/README.md)" not in text} == set()


def test_a_class_of_the_glossary_exists():
    third = [
        line.split("|")[3] for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.count("|") == 5
    ]

    assert {name for cell in third for name in CLASS.findall(cell)} - classes() == set()
