"""The glossary and the map of the architecture are true: every module and class that they name exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "funken"
MODULE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")
CLASS = re.compile(r"`([A-Z][A-Za-z]+)`")


def classes():
    trees = (ast.parse(path.read_text()) for path in SOURCE.rglob("*.py"))
    nodes = [node for tree in trees for node in ast.walk(tree)]
    assigned = [node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [target for node in assigned for target in getattr(node, "targets", [getattr(node, "target", None)])]
    aliases = {target.id for target in targets if isinstance(target, ast.Name)}
    return aliases | {node.name for node in nodes if isinstance(node, ast.ClassDef)}


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
