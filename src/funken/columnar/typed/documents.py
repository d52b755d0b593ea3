"""``json.loads`` of texts of which some are known: documents of a schema, of which only the fields that are used are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from funken.columnar.expressions import Expression, GetItem, NotVectorizable, children
from funken.columnar.typed.samples import Parsed, SampledText
from funken.columnar.typed.sharing import with_parts
from funken.expr.types import Type, atomic_fields


def loaded(given: Sequence[tuple[Expression, Type]]) -> tuple[Expression, Type]:
    """Return the documents in texts; raise ``NotVectorizable`` if nothing is known of them."""
    if len(given) != 1 or not isinstance(given[0][1], SampledText):
        raise NotVectorizable("calls json.loads() with text that does not come from a source as it is")
    parser = given[0][1].documents()
    return Parsed(given[0][0], parser), parser.schema


def with_wanted(expressions: Sequence[Expression]) -> list[Expression]:
    """Return expressions whose documents have the fields only that are taken out of them, in any of these.

    What is alike in them has to be one object (``sharing.py``).
    """
    wanted: dict[int, set[int]] = {}
    seen: set[int] = set()

    def look(expression: Expression, path: tuple[int, ...]) -> None:
        if isinstance(expression, GetItem) and isinstance(expression.index, int):
            look(expression.record, (expression.index, *path))
        elif isinstance(expression, Parsed):
            used = wanted.setdefault(id(expression), set())
            if path:
                leaves = enumerate(atomic_fields(expression.parser.schema))
                used.update(number for number, (leaf, _) in leaves if leaf[: len(path)] == path)
            look(expression.text, ())
        elif id(expression) not in seen:
            seen.add(id(expression))
            for each in children(expression):
                look(each, ())

    for each in expressions:
        look(each, ())
    if not wanted:
        return list(expressions)
    known: dict[int, Expression] = {}

    def of(expression: Expression) -> Expression:
        found = known.get(id(expression))
        if found is None:
            found = with_parts(expression, of)
            if isinstance(expression, Parsed) and isinstance(found, Parsed):
                found = replace(found, wanted=tuple(sorted(wanted[id(expression)])))
            known[id(expression)] = found
        return found

    return [of(each) for each in expressions]


__all__ = ["loaded", "with_wanted"]
