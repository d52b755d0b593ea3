"""The names, members and signatures of PyFlink's modules are there, or there is a reason; the page says so."""

import ast
import inspect
from collections import Counter

import pytest

from funken.compat.pyflink.finder import MODULES
from scripts import pyflink_surface as surface
from scripts.pyflink_surface import Gap

COMPARISONS = [surface.compare(module, offered) for module, offered in surface.kept().items()]

SOURCE = '''
__all__ = ["Window", "LIMIT"]
LIMIT: int = 3
class Window:
    """A window."""
    EMPTY = None
    def __init__(self, size, j_window=None): ...
    @staticmethod
    def of(size: int, *, name="w"): ...
    @property
    def size(self): ...
    def _hidden(self): ...
    class Builder:
        def __init__(self, size): ...
        def build(self, *args, **kwargs): ...
def helper(): ...
'''


def test_what_is_missing_or_different_has_a_reason():
    gaps = [gap for comparison in COMPARISONS for gap in comparison.gaps]

    assert [(gap.name, gap.detail) for gap in gaps if surface.reason_of(gap) is None] == []
    assert len(gaps) > 100  # or nothing was compared


def test_what_pyflink_1_had_is_there_or_has_a_reason():
    comparisons = surface.older_comparisons()

    assert sum((comparison.offered for comparison in comparisons), Counter())["members"] > 40
    gaps = [gap for comparison in comparisons for gap in comparison.gaps]
    assert [(gap.name, gap.detail) for gap in gaps if surface.reason_of(gap) is None] == []


def test_every_name_of_a_module_can_be_imported_or_has_a_reason():
    assert [gap.name for gap in surface.missing_names() if surface.reason_of(gap) is None] == []


@pytest.mark.parametrize(
    "module", [module for module in surface.kept(surface.NAMESPACES) if "datastream" in module and module in MODULES]
)
def test_names_are_imported_as_programs_import_them(module):
    missing = {gap.name.partition(":")[2] for gap in surface.missing_names() if gap.name.startswith(f"{module}:")}
    names = set(surface.kept(surface.NAMESPACES)[module].split()) - missing
    found = {}
    exec(f"from {module} import {', '.join(sorted(names)) or '*'}", found)
    assert names <= found.keys()


def test_a_namespace_has_what_a_module_imports_from_pyflink():
    imports = "import os\nfrom abc import ABC\nfrom pyflink.common import Time, Types as T\nfrom .a import b"
    source = f"{imports}\n_x = y = 1\nclass C: ..."

    assert [*surface.read_namespace(ast.parse(source).body)] == ["Time", "T", "b", "y", "C"]


def test_the_page_is_as_the_script_writes_it():
    assert surface.PAGE.read_text() == surface.page(COMPARISONS), "run scripts/pyflink_surface.py --write"


def test_the_surface_is_read_from_source():
    assert surface.read_module(ast.parse(SOURCE)) == {
        "Window": {
            "EMPTY": None,
            "of": ["size", "name="],
            "size": None,
            "Builder": {"__init__": ["size"], "build": ["*args", "**kwargs"]},
        },
        "LIMIT": None,
    }


@pytest.mark.parametrize(
    ("wanted", "function", "difference"),
    [
        (["size", "name="], lambda size, name="w", more=1: 0, ""),
        (["size", "name="], lambda *args, **kwargs: 0, ""),
        (["size"], lambda count: 0, "size: count"),
        (["size"], lambda: 0, "size: not there"),
        (["size", "name"], lambda name, size: 0, "size has another place"),
        (["size="], lambda size: 0, "size must be given"),
        (["size"], lambda size, name: 0, "name must be given"),
        (["*sizes"], lambda sizes: 0, "takes no *sizes"),
    ],
)
def test_a_signature_that_refuses_a_call_is_seen(wanted, function, difference):
    assert surface.differs(wanted, list(inspect.signature(function).parameters.values())) == difference


def test_missing_names_members_and_modules_are_gaps():
    offered = {"Duration": {"of_millis": ["millis"], "of_years": ["years"]}, "Century": {"of": []}}

    compared = surface.compare("pyflink.common", offered)

    assert dict(compared.offered) == {"names": 2, "members": 3, "signatures": 3}
    assert [(gap.name, gap.what, dict(gap.lost)) for gap in compared.gaps] == [
        ("pyflink.common:Duration.of_years", "member", {"members": 1, "signatures": 1}),
        ("pyflink.common:Century", "name", {"names": 1, "members": 1, "signatures": 1}),
    ]
    assert [gap.what for gap in surface.compare("pyflink.nowhere", {"A": None}).gaps] == ["module"]


def test_nobody_has_a_reason_for_a_new_gap():
    assert surface.reason_of(Gap("pyflink.datastream.data_stream:DataStream.map", "member", None)) is None
