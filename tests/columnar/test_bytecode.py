"""One instruction set, whatever the version of Python."""

import ast
import re
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from funken.columnar.bytecode import UnknownBytecode, is_plain, operations
from funken.columnar.expressions import NotVectorizable
from funken.columnar.tracing import trace
from funken.operators.codegen import expression_of

SOURCE = Path(__file__).parents[2] / "src" / "funken"
FACTOR = 3


def names(function):
    return [(each.name, each.argument) for each in operations(function.__code__)]


def test_pairs_of_loads_and_constants_returned_are_operations_of_their_own():
    def both(a, b):
        c = a + b
        return (a, c) if c else None

    assert names(both)[:4] == [("LOAD_FAST", "a"), ("LOAD_FAST", "b"), ("BINARY_OP", "+"), ("STORE_FAST", "c")]
    assert names(lambda a: None) == [("LOAD_CONST", None), ("RETURN_VALUE", None)]


def test_what_is_called_comes_after_its_null():
    found = operations((lambda a: len(a) * FACTOR).__code__)

    assert [(each.name, each.argument, each.calls) for each in found][:2] == [
        ("PUSH_NULL", None, False),
        ("LOAD_GLOBAL", "len", True),
    ]
    assert [each.calls for each in found if each.argument == "FACTOR"] == [False]


def test_methods_are_told_from_attributes():
    assert ("LOAD_METHOD", "startswith") in names(lambda a: a.startswith("x"))
    assert ("LOAD_ATTR", "real") in names(lambda a: a.real)


def test_jumps_name_operations():
    def sign(n):
        if n < 0:
            return "-"
        return "+"

    found = operations(sign.__code__)
    (jump,) = (each for each in found if each.name == "POP_JUMP_IF_FALSE")

    assert found[jump.argument].argument == "+"


@pytest.mark.parametrize(("written", "form"), [("{a}", (0, False)), ("{a:>5}", (0, True))])
def test_formats_are_one_operation(written, form):
    assert ("FORMAT", form) in names(eval(f'lambda a: f"<{written}>"'))


def test_functions_with_other_arguments_or_handlers_are_not_plain():
    def handles(a):
        try:
            return 1 // a
        except ZeroDivisionError:
            return 0

    async def waits(a):
        return a

    assert is_plain((lambda a: a).__code__)
    assert not any(
        is_plain(each.__code__)
        for each in (handles, waits, lambda *a: a, lambda **a: a, lambda a, *, b: a, lambda a: (yield a))
    )


def test_a_python_that_is_not_known_is_refused_by_all_readers(monkeypatch):
    version = namedtuple("version", "major minor micro")(3, 99, 0)
    monkeypatch.setattr(sys, "version_info", version)

    with pytest.raises(UnknownBytecode, match="the bytecode of Python 3.99 is not known"):
        operations((lambda a: a).__code__)
    with pytest.raises(NotVectorizable, match="the bytecode of Python 3.99 is not known"):
        trace(lambda a: a, None, 1)
    assert expression_of(lambda a: a, ["value"]) is None


def test_bytecode_is_read_in_one_module_only():
    sources = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    found = {
        path.relative_to(SOURCE).as_posix()
        for path, text in sources.items()
        if re.search(r"\bdis\b", text)  # to parse all takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import) and any(alias.name == "dis" for alias in node.names)
    }

    assert found == {"columnar/bytecode.py"}
