"""Expressions over the types and schemas of PyFlink, evaluated by whichever package is ``pyflink`` here.

``type_answers.json`` has the expressions, and PyFlink's answers: of each type one for every probe. To record the answers anew, or
those of expressions that were added with ``null``, run this file with the Python of an environment that has PyFlink, in UTC.
"""

import copy
import datetime
import json
import pickle
from array import array
from collections import namedtuple
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyflink.common import Row, RowKind
from pyflink.table import (
    DataTypes,
    EnvironmentSettings,
    FormatDescriptor,
    Schema,
    TableDescriptor,
    TableEnvironment,
    TableSchema,
)
from pyflink.table import catalog as C
from pyflink.table import types as T
from pyflink.table.expressions import col

FILE = Path(__file__).with_name("type_answers.json")
Named = namedtuple("Named", "x y")


class Point(T.UserDefinedType):
    """A type of complex numbers."""

    @classmethod
    def sql_type(cls):
        return DataTypes.ARRAY(DataTypes.DOUBLE())

    def serialize(self, obj):
        return [obj.real, obj.imag]

    def deserialize(self, datum):
        return complex(*datum)


def deleted():
    row = Row(1, None)
    row.set_row_kind(RowKind.DELETE)
    return row


def added():
    row = DataTypes.ROW()
    row.add("a", DataTypes.INT())
    row.add("b", DataTypes.DATE())
    return row


def names():
    """Return the names that the expressions use."""
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')")
    D = DataTypes
    shared = {
        each.__name__: each for each in (copy, datetime, pickle, Decimal, Named, Point, Row, added, array, col, deleted)
    }
    return shared | {
        "C": C, "D": D, "FD": FormatDescriptor, "RUN": environment.execute_sql, "S": Schema.new_builder,
        "SQL": environment.sql_query, "T": T, "TD": TableDescriptor, "TS": TableSchema, "pa": pa,
        "HOUR": datetime.timezone(datetime.timedelta(hours=1)),
        "ROW": D.ROW([D.FIELD("a", D.INT()), D.FIELD("b", D.DATE(), "day")]),
    }  # fmt: skip


def answer(expression, known):
    """Return the ``repr`` of a value, or ``!`` and the name of its error, with the error."""
    try:
        return repr(eval(expression, dict(known))), None
    except Exception as error:  # noqa: BLE001 - errors are answers
        return f"!{type(error).__name__}", error


def cases():
    """Yield each expression, a definition of ``t`` for those that need it, and PyFlink's answer."""
    kept = json.loads(FILE.read_text())
    for type_, answers in kept["types"].items():
        for probe, recorded in zip(kept["probes"], answers, strict=True):
            yield probe, type_, recorded
    for kind in ("values", "schemas"):
        for expression, recorded in kept[kind].items():
            yield expression, "None", recorded


def with_subject(known, definition):
    """Return names, with ``t`` as what an expression defines and ``subject()`` as another of its kind."""
    return known | {"t": eval(definition, dict(known)), "subject": lambda: eval(definition, dict(known))}


def record():
    """Write the answers of this ``pyflink``."""
    kept, known = json.loads(FILE.read_text()), names()
    for type_ in kept["types"]:
        kept["types"][type_] = [answer(probe, with_subject(known, type_))[0] for probe in kept["probes"]]
    for kind in ("values", "schemas"):
        kept[kind] = {expression: answer(expression, known)[0] for expression in kept[kind]}
    parts = []
    for kind, content in kept.items():
        if kind == "probes":
            parts.append(f'"probes": {json.dumps(content)}')
        else:
            lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
            parts.append(f'"{kind}": {{\n{lines}\n}}')
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    record()
