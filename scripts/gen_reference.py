"""Write the reference pages that follow from the code: ``python scripts/gen_reference.py``.

A test fails while a page differs from what this writes.
"""

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from funken import config, errors
from funken.config import configuration as flink

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
SOURCE = Path(__file__).parents[1] / "src" / "funken"

HEADER = """\
# Options

Every option of a [`Configuration`](../guide/running.md#options), in this order of precedence: what the program sets,
then `funken run -D KEY=VALUE`, then the default. An unknown key is an error that names the nearest known one, and so is
a value of the wrong type or out of range. [Options of Flink without effect](#options-of-flink-without-effect) are accepted
with a warning, so that the configuration of a ported job does not fail. Options of Spark are set where the session is
made. A duration is a `timedelta`, a number of milliseconds, or text such as `"50 ms"`, `"5 s"`, `"1 min"`.

This page is written by `scripts/gen_reference.py`.

| option | default | meaning |
|---|---|---|
"""


FLINK = """
## Options of Flink without effect

These options of Flink 1.20 to 2.3 may be set, and a warning says `option ... has no effect here because ...`. `*` stands
for any name.
"""


def options_page() -> str:
    """Return ``docs/reference/options.md``."""
    rows = []
    for option in config.options():
        default = f"`{option.default}`" if option.default not in ("", {}, ()) else ""
        rows.append(f"| `{option.key}` | {default} | {option.doc.replace('|', '/')} |\n")
    groups = [
        f"\n**{reason[:1].upper()}{reason[1:]}:**\n\n" + "\n".join(f"`{key}`" for key in keys) + "\n"
        for reason, keys in flink.groups()
    ]
    return HEADER + "".join(rows) + FLINK + "".join(groups)


ERRORS = """\
# Errors

Every error that Funken raises on its own account is a `FunkenError`; a message names the operator, the fact and the
remedy, in this order. The classes are in `funken.errors`, unless another module is named. What a user's function raises is
the `__cause__` of an `OperatorFailed`, with its own traceback. *Internal* ones do not reach a program: they are how Funken
says to itself that something runs in another way.

This page is written by `scripts/gen_reference.py`.

| error | also a | meaning |
|---|---|---|
"""

INTERNAL = {"NotVectorizable", "FallBackToRows"}


@dataclass(frozen=True)
class ErrorClass:
    """An exception class of the package, as its source says."""

    name: str
    bases: tuple[str, ...]
    module: str
    meaning: str


def exception_classes() -> dict[str, ErrorClass]:
    """Return all classes of the package whose bases lead to an exception of Python, by name."""
    classes = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                meaning = (ast.get_docstring(node) or "").split("\n")[0]
                bases = tuple(ast.unparse(base).rpartition(".")[2] for base in node.bases)
                classes.setdefault(node.name, ErrorClass(node.name, bases, module, meaning))

    def raised(name: str) -> bool:
        if name in classes:
            return any(raised(base) for base in classes[name].bases if base != name)
        return issubclass(vars(builtins).get(name, object), BaseException)

    return {name: found for name, found in classes.items() if raised(name)}


def errors_page() -> str:
    """Return ``docs/reference/errors.md``."""
    classes = exception_classes()
    order = {name: number for number, name in enumerate(vars(errors))}

    def rows(name: str, depth: int) -> Iterator[str]:
        found = classes[name]
        also = ", ".join(f"`{base}`" for base in found.bases if base not in classes and base != "Exception")
        place = "" if found.module == "funken.errors" else f" (`{found.module}`)"
        internal = "*Internal.* " if name in INTERNAL else ""
        yield f"| {'&nbsp;' * 4 * depth}`{name}`{place} | {also} | {internal}{found.meaning} |\n"
        below = (each for each in classes.values() if each.bases[0] == name and not each.name.startswith("_"))
        for each in sorted(below, key=lambda each: (order.get(each.name, len(order)), each.name)):
            yield from rows(each.name, depth + 1)

    return ERRORS + "".join(rows("FunkenError", 0))


def types_page() -> str:
    """Return ``docs/reference/types.md``, which follows from the table that a test writes and reads."""
    sys.path.insert(0, str(ROOT))
    from tests.support import format_types  # noqa: PLC0415 - found by the line before

    return format_types.page()


def operations_page() -> str:
    """Return ``docs/reference/python-on-columns.md``, which follows from the table that functions are read by."""
    sys.path.insert(0, str(ROOT))
    from tests.support import operations  # noqa: PLC0415 - found by the line before

    return operations.page()


FUNCTIONS = """\
# SQL functions

The built-in functions of [SQL](../guide/sql.md), with Flink's names, types and results. Case does not matter. A function is
NULL if an argument is, unless its line says otherwise. Wrong arguments are an error that lists the signatures; for an unknown
name the error has the nearest known one. `[...]` may be left out, `...` may be repeated.

This page is written by `scripts/gen_reference.py`. A test runs every example.
"""

TOPICS = {
    "comparison": "Comparison",
    "logic": "Logic",
    "conditional": "Conditions",
    "arithmetic": "Arithmetic",
    "numbers": "Numbers",
    "strings": "Texts",
    "time": "Times",
    "conversion": "Conversions",
    "collections": "Collections, rows and objects",
    "json": "JSON and variants",
    "bitmap": "Bitmaps",
    "hashes": "Hashes",
    "urls": "URLs and addresses",
    "session": "The session",
    "aggregate": "Aggregates",
    "window": "Over windows only",
}


def functions_page() -> str:
    """Return ``docs/reference/sql-functions.md``, which follows from the table of functions."""
    from funken.expr.sql.functions import FUNCTIONS as TABLE  # noqa: PLC0415 - loads Arrow

    def code(text: str) -> str:
        return f"`{text}`".replace("|", "\\|")

    def row(rule: object) -> str:
        signatures = "<br>".join(code(each) for each in rule.signatures)
        also = f" Also {', '.join(f'`{each}`' for each in rule.aliases)}." if rule.aliases else ""
        examples = "<br>".join(f"{code(sql)} is {code(text)}" if text else code(sql) for sql, text in rule.examples)
        return f"| {signatures} | {rule.description.replace('``', '`').replace('|', '/')}{also} | {examples} |\n"

    parts = []
    for group, title in TOPICS.items():
        rules = sorted((rule for rule in TABLE if rule.group == group), key=lambda rule: rule.name)
        note = "\nIn the examples `x` is 1, 2 and 3.\n" if group == "aggregate" else ""
        head = f"\n## {title}\n{note}\n| function | meaning | example |\n|---|---|---|\n"
        parts.append(head + "".join(map(row, rules)))
    return FUNCTIONS + "".join(parts)


PAGES = {
    "options.md": options_page,
    "errors.md": errors_page,
    "types.md": types_page,
    "sql-functions.md": functions_page,
    "python-on-columns.md": operations_page,
}

if __name__ == "__main__":
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
