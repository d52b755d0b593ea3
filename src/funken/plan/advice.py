"""Remedies for Python's own errors about a name or an argument of Funken, when a script ends with one.

Python says that a method does not exist, or how many arguments it takes. The note names the methods that do exist, or the
parameters. Errors that Funken raises have their remedy already.
"""

from __future__ import annotations

import inspect
import linecache
import opcode
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

from funken.lazy import home_of

_OURS = str(Path(__file__).parents[1])
_BOUND = re.compile(
    r"^((?:\w+\.)*\w+)\(\) (?:missing|takes (?:\d|from|no)|got an unexpected|got multiple|got some positional)"
)
_SHOWN = 12


def advise(error: BaseException) -> None:
    """Add a note with the remedy, and cut Funken's frames behind the line of the program.

    >>> from funken.dataset import ExecutionEnvironment
    >>> words = ExecutionEnvironment.create_local_environment(parallelism=1).from_elements("to")
    >>> try:
    ...     words.grouped_by(len)
    ... except AttributeError as error:
    ...     advise(error)
    ...     print(error.__notes__[0].partition(":")[0], "group_by()" in error.__notes__[0])
    A DataSet has, for example True
    """
    note = _of_name(error) if isinstance(error, AttributeError) else ""
    if isinstance(error, TypeError):
        note = _of_arguments(error)
    elif isinstance(error, ImportError):
        note = _of_import(error)
    elif isinstance(error, NameError) and (home := home_of(error.name or "")) is not None:
        note = f"Write: from {home} import {error.name}"
    if note in getattr(error, "__notes__", ()):
        return
    note = note or _of_call(error)
    if note:
        error.add_note(note)
    _cut(error.__traceback__)


def near_names(kind: type, name: str) -> str:
    """Return public names of a class, those like the given one first.

    >>> class Words:
    ...     def count(self): ...
    ...     text = ""
    >>> near_names(Words, "cuont")
    'count(), text'
    """
    names = [each for each in dir(kind) if not each.startswith("_")]
    names.sort(key=lambda each: SequenceMatcher(None, each, name).ratio(), reverse=True)
    shown = [f"{each}()" if callable(getattr(kind, each, None)) else each for each in names[:_SHOWN]]
    return ", ".join(shown) + (", ..." if len(names) > _SHOWN else "")


def missing_name(kind: type, name: str, columns: Sequence[str]) -> str:
    """Return the message for an attribute of a table or frame that is neither a method nor a column.

    >>> from funken.table.table import Table
    >>> missing_name(Table, "orderBy", ["item"]), missing_name(Table, "show", ["item"])
    ("'Table' object has no column and no method 'orderBy'. Did you mean order_by()? Its columns are: item.",
     "'Table' object has no column and no method 'show'. execute().print() prints the rows. Its columns are: item.")
    """
    text = f"{kind.__name__!r} object has no column and no method {name!r}."
    methods = [each for each in dir(kind) if not each.startswith("_")]
    near = get_close_matches(name, columns, 1, 0.7) or [
        each if isinstance(getattr(kind, each), property) else f"{each}()"
        for each in get_close_matches(name, methods, 1, 0.7)
    ]
    if kind.__name__ == "DataFrame" and name in _OF_FRAMES:
        text = f"{text} {_OF_FRAMES[name]}."
    elif near:
        text = f"{text} Did you mean {near[0]}?"
    elif name in _OF_TABLES:
        text = f"{text} {_OF_TABLES[name]}."
    return f"{text} Its columns are: {', '.join(columns)}."


_OF_FRAMES = {
    "apply": "map() calls a function per record, udf() makes one for columns",
    "assign": "Use with_columns()",
    "astype": "with_column(name, col(name).cast(DataType.int64())) changes a type",
    "cache": "Each action executes the query; to_arrow() keeps its rows",
    "count": "agg(n=lit(1).count) counts the rows",
    "crossJoin": 'Use join(other, how="cross")',
    "describe": "agg(low=col(name).min, high=col(name).max) and the like describe a column",
    "dropna": "Use drop_null(), and drop_nan() for NaN",
    "drop_nulls": "Use drop_null()",
    "dtypes": "schema has the types",
    "except_": "Use minus()",
    "fillna": "Use fill_null(), and fill_nan() for NaN",
    "filter_by": "Use filter()",
    "groupBy": "Use group_by()",
    "groupby": "Use group_by()",
    "iloc": "limit() and offset() choose rows",
    "isnull": "col(name).is_null is the condition for a column",
    "iterrows": "Use iter_rows()",
    "itertuples": "Use iter_rows()",
    "lazy": "A frame is lazy already",
    "loc": "filter() chooses rows, select() columns",
    "merge": "Use join()",
    "na": "Use drop_null() and fill_null()",
    "orderBy": "Use sort()",
    "order_by": "Use sort()",
    "printSchema": "print(frame.schema) prints the types",
    "query": "Use filter(), which takes SQL, too",
    "registerTempTable": "sql() knows frames by the names of variables",
    "createOrReplaceTempView": "sql() knows frames by the names of variables",
    "selectExpr": "sql() and filter() take SQL, call_sql() makes an expression of it",
    "shape": "len(frame.columns) is the width, agg(n=lit(1).count) the number of rows",
    "sort_values": "Use sort()",
    "tail": "sort(..., descending=True).limit(n) returns the last rows",
    "toDF": "Use rename()",
    "toPandas": "Use to_pandas()",
    "unionAll": "Use union_all()",
    "value_counts": "group_by(name).agg(n=lit(1).count) counts values",
    "withColumn": "Use with_column()",
    "withColumnRenamed": "Use rename(old, new)",
    "write": "Use write_parquet(), write_json(), write_kafka() or write_generic()",
}
_KEYS = "A join needs keys before its records are known: one.join(other).where(key).equal_to(key), then using(function)"
_OF_BATCH = {
    "DataSet": {
        "append": "union() has the records of two data sets",
        "distinct_by": "Use distinct(key)",
        "foreach": "collect() returns the records, print() shows them, map() calls a function with each",
        "for_each": "collect() returns the records, print() shows them, map() calls a function with each",
        "groupBy": "Use group_by()",
        "head": "first(5).collect() returns five records",
        "key_by": "A data set has group_by(), streams have key_by()",
        "limit": "first(n) keeps n records",
        "order_by": "Use sort_partition(); set_parallelism(1) on it makes one order of all records",
        "show": "Use print()",
        "sort": "Use sort_partition(); set_parallelism(1) on it makes one order of all records",
        "sort_by": "Use sort_partition(); set_parallelism(1) on it makes one order of all records",
        "sortBy": "Use sort_partition(); set_parallelism(1) on it makes one order of all records",
        "sort_group": "group_by(key).sort_group(field) sorts groups, sort_partition(field) whole partitions",
        "take": "first(n).collect() returns n records",
        "toPandas": "pandas.DataFrame(data.collect()) has the records",
        "to_pandas": "pandas.DataFrame(data.collect()) has the records",
    },
    "ExecutionEnvironment": {
        "read_csv": "Use read_csv_file()",
        "read_json": "Use read_json_file()",
        "read_parquet": "Use read_parquet_file()",
    },
    "GroupedDataSet": {
        **dict.fromkeys(
            ("collect", "print", "output", "filter", "map", "flat_map", "name"),
            "Groups are no records yet: reduce(), reduce_group(), sum(), first() and their like make records of them",
        ),
        "agg": "aggregate(Aggregations.SUM, field).and_(...) aggregates fields",
        "apply": "reduce_group() calls a function with the records of each group",
        "count": "reduce_group(lambda group: [len(list(group))]) counts each group",
    },
    "Graph": {
        "add_node": "Use add_vertex((id, value)), which returns another graph",
        "connected_components": "graph.run(ConnectedComponents(10)) computes them",
        "degree": "Use get_degrees(), in_degrees() or out_degrees()",
        "edges": "Use get_edges()",
        "neighbors": "get_edges() has the neighbours, reduce_on_neighbors() combines their values",
        "nodes": "Use get_vertices() or get_vertex_ids()",
        "number_of_nodes": "Use number_of_vertices()",
        "vertices": "Use get_vertices() or get_vertex_ids()",
    },
    "CoGroupOperator": {"": _KEYS.replace("join", "co_group")},
    "JoinOperator": {"": _KEYS},
    "KeyedCoGroup": {"": "A co-group has no records without a function: call using(function) on it"},
    "OuterJoin": {"": "An outer join has no records without a function: call using(function) on it"},
    "OuterJoinOperator": {"": _KEYS},
    "PatternStream": {
        "": "It has no records before select(), flat_select() or process(), each of which gets a function of the matches",
    },
}
"""Names that other libraries have, by class; ``""``: every name of a class that has no records yet."""
_OF_TABLES = {
    "agg": "group_by() and select() aggregate",
    "assign": "add_columns() adds a column",
    "collect": "execute().collect() returns the rows, to_pandas() a frame",
    "count": "select(lit(1).count) counts the rows",
    "createOrReplaceTempView": "create_temporary_view() of the environment gives it a name",
    "drop": "drop_columns() drops a column",
    "groupBy": "Use group_by()",
    "groupby": "Use group_by()",
    "head": "limit(5) and to_pandas() return the first rows",
    "print": "execute().print() prints the rows",
    "show": "execute().print() prints the rows",
    "sort_values": "Use order_by()",
    "take": "limit(5) and to_pandas() return the first rows",
    "toPandas": "Use to_pandas()",
    "withColumn": "add_columns() adds a column",
    "write": "execute_insert() writes to a table with a connector",
}


def printed_by(frame: FrameType) -> bool:
    """Return True if the program calls ``print()`` with an object as an argument, and so asks for its text.

    >>> class Text:
    ...     def __str__(self):
    ...         return str(printed_by(sys._getframe(1)))
    >>> f"{Text()}"
    'False'
    """
    positions = list(frame.f_code.co_positions())
    line, _, column, _ = (
        positions[frame.f_lasti // 2] if frame.f_lasti // 2 < len(positions) else (None, None, None, None)
    )
    if line is None or column is None:
        return False
    return linecache.getline(frame.f_code.co_filename, line).encode()[column:].startswith(b"print(")


def calling(frame: FrameType | None) -> tuple[int, int]:
    """Return the place of the program's call that Funken's frames stand in: its code and instruction."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("funken."):
        frame = frame.f_back
    return (0, 0) if frame is None else (id(frame.f_code), frame.f_lasti)


def dropped_at(call: tuple[int, int]) -> tuple[str, int] | None:
    """Return the file and line of the statement that drops the value of a call: asked by ``__del__`` of the value.

    >>> class Result:
    ...     def __init__(self):
    ...         self.call = calling(sys._getframe(1))
    ...     def __del__(self):
    ...         print(dropped_at(self.call) is not None)
    >>> names = {"Result": Result, "__name__": "job"}
    >>> exec("Result()", names)
    True
    >>> exec("kept = Result()", names)
    >>> del names["kept"]
    False
    """
    frame = sys._getframe(1).f_back
    if frame is None or call[0] != id(frame.f_code):
        return None
    code, last, behind = frame.f_code.co_code, frame.f_lasti, call[1] + 2
    while behind < last and code[behind] == _CACHE:
        behind += 2
    return (frame.f_code.co_filename, frame.f_lineno) if code[last] == _POP_TOP and behind == last else None


_POP_TOP, _CACHE = opcode.opmap["POP_TOP"], opcode.opmap["CACHE"]


def _of_name(error: AttributeError) -> str:
    if isinstance(error.obj, ModuleType) and error.obj.__name__.startswith("funken."):
        return _ABSENT.get(error.name or "", "")
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    if error.name == "get_runtime_context" and any(map(_is_ours, kind.__mro__)):
        return "The runtime context comes to open(self, runtime_context): ask it for states there."
    if error.obj is None or error.name is None or error.name.startswith("_") or not _is_ours(kind):
        return ""
    if error.name.startswith("set_") and hasattr(kind, "get_params"):
        return f"Parameters are arguments: {kind.__name__}{inspect.signature(kind)}."
    algorithm = "".join(part.title() for part in error.name.split("_"))
    if kind.__name__ == "Graph" and home_of(algorithm) == "funken.graph":
        return f"An algorithm is an object that runs: graph.run({algorithm}(...)), with from funken.graph import {algorithm}."
    for each in kind.__mro__:
        if (
            remedy := _OF_BATCH.get(each.__name__, {}).get(error.name) or _OF_BATCH.get(each.__name__, {}).get("")
        ) is not None:
            return f"{remedy}."
    article = "An" if kind.__name__[0] in "AEIOU" else "A"
    return f"{article} {kind.__name__} has, for example: {near_names(kind, error.name)}."


_ABSENT = {
    **dict.fromkeys(
        ("Vectors", "DenseVector", "SparseVector", "Vector"),
        "A vector needs no class: it is a NumPy array, or a tuple or list of numbers.",
    ),
    **{
        f"{name}{kind}": f"Trees are those of scikit-learn, one model per task: Partition{kind}(estimator) of funken.ml."
        for name in ("DecisionTree", "ExtraTrees", "GBT", "GradientBoosting", "HistGradientBoosting", "RandomForest")
        for kind in ("Classifier", "Regressor")
    },
}
"""Names that other libraries have, with the remedy."""


def _of_import(error: ImportError) -> str:
    """Return the import that finds the names of a failed one, if it asked Funken for them."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_OURS)]
    frames = [each for each in frames if not each.filename.startswith("<frozen")]
    if not (error.name or "").startswith("funken") or not frames or re.search("Did you mean|Write:", str(error)):
        return ""
    lines = "".join(linecache.getlines(frames[-1].filename)[(frames[-1].lineno or 1) - 1 :])
    statement = re.match(r"\s*from\s+funken[\w.]*\s+import\s+(?:\(([^)]*)\)|([^\n#;]*))", lines)
    asked = re.search(r"cannot import name '(\w+)'", str(error))
    names = (
        [asked[1]]
        if asked
        else re.findall(r"(\w+)(?:\s+as\s+\w+)?", " ".join(statement.groups("")) if statement else "")
    )
    homes: dict[str, list[str]] = {}
    for name in names:
        homes.setdefault(home_of(name) or "", []).append(name)
    lost = homes.pop("", [])
    for name in lost if not homes else []:
        known = [each for each in dir(sys.modules.get(error.name or "")) if not each.startswith("_")]
        near = [each for each in known if each.lower() == name.lower()] or get_close_matches(name, known, 1, 0.8)
        if name in _ABSENT or near:
            return _ABSENT.get(name) or f"Did you mean {near[0]}?"
    return "\n".join(f"Write: from {home} import {', '.join(found)}" for home, found in homes.items())


_NOT_CALLABLE = "'Expression' object is not callable"
_OF_TYPES = (
    (
        "'Expression' object is not iterable",
        "An expression stands for a column: write col('n').sum, .min or .max instead of sum(), min() or max().",
    ),
    (
        _NOT_CALLABLE,
        "An expression has no such method, or it is a property, without parentheses: col('n').upper_case, .desc, .sum. Any other "
        "name is taken for a field.",
    ),
    (
        "(not|of) '?Expression|type Expression",
        "An expression stands for a column, and has no value here. Use its methods, as in col('n').sqrt, col('n').round(0) or "
        "col('n').cast(DataTypes.INT()); a function with @udf gets values.",
    ),
    (
        "'DataFrame' object does not support item assignment",
        "A frame does not change: frame.with_column('c', frame['a'] + 1) returns another one.",
    ),
    (
        "'DataFrame' has no len",
        "A frame is a query: collect() returns its rows, take(5) the first ones, to_pandas() all as a frame of pandas.",
    ),
    (
        "'Table' object does not support item assignment",
        "A table does not change: add_or_replace_columns(...) of it returns another one.",
    ),
    (
        "'CloseableIterator' object is not subscriptable|'CloseableIterator' has no len",
        "It gives each record once. Give execute_and_collect(limit=10) for a list, or take list(...) of it.",
    ),
    (
        "'TableResult' object is not|'TableResult' has no len",
        "collect() reads the rows of a TableResult: with result.collect() as rows: ... A Table has to_pandas().",
    ),
    (
        r"'\w*DataSet' object is not|'\w*DataSet' has no len",
        "A DataSet is a plan: collect() runs it and returns the records, count() their number, print() shows them.",
    ),
    (r"for \+: '\w*DataSet'", "one.union(other) has the records of both."),
    (
        "'Graph' object is not|'Graph' has no len",
        "A Graph is a plan: get_vertices() and get_edges() are data sets, number_of_vertices() and number_of_edges() numbers.",
    ),
)
"""Uses of objects that Python refuses, with the remedy."""


_OF_EXPRESSIONS = {
    "astype": "cast(DataTypes.INT())",
    "contains": "like('%text%')",
    "endswith": "like('%text')",
    "fillna": "if_null(0)",
    "isin": "in_(1, 2)",
    "isna": "is_null",
    "isnull": "is_null",
    "len": "char_length",
    "lower": "lower_case",
    "mean": "avg",
    "notna": "is_not_null",
    "notnull": "is_not_null",
    "nunique": "count.distinct",
    "startswith": "like('text%')",
    "std": "stddev_samp",
    "strip": "trim()",
    "upper": "upper_case",
}


def _of_method(trace: TracebackType | None) -> str:
    """Return the remedy for a method that expressions do not have, or that is a property of theirs."""
    lines = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace is not None else ""
    expression = getattr(sys.modules.get("funken.table.expression"), "Expression", None)
    for name in re.findall(r"\.(\w+)\(", lines):
        if name in _OF_EXPRESSIONS:
            return f"An expression has no {name}(): write col('n').{_OF_EXPRESSIONS[name]}."
        if isinstance(getattr(expression, name, None), property):
            return f"{name} of an expression is a property: write col('n').{name}, without parentheses."
    return ""


def _of_arguments(error: TypeError) -> str:
    bound, trace = _BOUND.match(str(error)), error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    for fact, remedy in _OF_TYPES:
        if re.search(fact, str(error)) is not None:
            return (_of_method(trace) if fact == _NOT_CALLABLE else "") or remedy
    if bound is None or trace is None:
        return ""
    function = _named(bound[1], trace.tb_frame)
    if function is None:
        return ""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for name, each in signature.parameters.items() if name != "self"]
    shown = signature.replace(parameters=parameters, return_annotation=signature.empty)
    first = (inspect.getdoc(function) or "").partition("\n")[0]
    name = bound[1].removesuffix(".__init__")
    if name != bound[1] and first.startswith("Initialize self."):
        first = (inspect.getdoc(trace.tb_frame.f_globals.get(name)) or "").partition("\n")[0]
    if name.startswith("_"):  # a base of public classes has it
        name = name.rpartition(".")[2]
    return f"{name}{shown}: {first}" if first else f"{name}{shown}"


def _of_call(error: BaseException) -> str:
    """Return the call of the program in which Funken's code failed with an error that it does not raise on purpose."""
    frames = [trace.tb_frame for trace in _traces(error.__traceback__)]
    ours = [frame.f_code.co_filename.startswith(_OURS) for frame in frames]
    if not any(ours) or not ours[-1] or all(ours) or not isinstance(error, AttributeError | TypeError | ValueError):
        return ""
    *_, last = _traces(error.__traceback__)
    if linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno).lstrip().startswith("raise "):
        return ""
    code, values = (called := frames[len(ours) - ours[::-1].index(False)]).f_code, called.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = ", ".join(
        f"{name}={values[name]!r:.60}" for name in names if name in values and name not in ("self", "cls")
    )
    name = code.co_qualname.rpartition("<locals>.")[2].removesuffix(".__init__")
    return f"It was raised in {name}({given}) of Funken. Look at these arguments first: a type may be wrong."


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _named(name: str, frame: FrameType) -> Any:
    """Return a function of Funken by its qualified name; ``None`` if the program has one of that name."""
    outer, *inner = name.split(".")
    theirs = frame.f_locals.get(outer, frame.f_globals.get(outer))
    if theirs is not None and not _is_ours(theirs):
        return None
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("funken"):
            found = vars(module).get(outer)
            if _is_ours(found):
                for each in inner:
                    found = getattr(found, each, None)
                return found if callable(found) else None
    return None


def _is_ours(defined: Any) -> bool:
    return (getattr(defined, "__module__", None) or "").startswith("funken.")


def _cut(trace: TracebackType | None) -> None:
    """Drop the frames of Funken behind the last one of the program, if Funken raised the error on purpose."""
    last, users = trace, None
    while last is not None:
        if not last.tb_frame.f_code.co_filename.startswith(_OURS):
            users = last
        if last.tb_next is None:
            break
        last = last.tb_next
    if last is not None and users is not None and last is not users:
        line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno)
        if line.lstrip().startswith("raise "):
            users.tb_next = None
