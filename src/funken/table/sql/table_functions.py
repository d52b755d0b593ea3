"""Functions over tables in FROM: the windows TUMBLE, HOP, CUMULATE and SESSION, and process table functions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from funken.expr.ir import InputRef, Literal, Node
from funken.table.catalog import CatalogModel
from funken.table.connectors.factory import has_vector_search, lookup_of
from funken.table.connectors.vector_search import VectorSearch
from funken.table.logical import (
    LogicalNode,
    LogicalScan,
    LogicalTableFunction,
    LogicalWindowTable,
    OutputColumn,
    RelationType,
    SortKey,
    TableArgument,
    TableCall,
    TimeAttribute,
    WindowKind,
    WindowShape,
)
from funken.table.models import prediction
from funken.table.sql import dialect
from funken.table.sql.aggregates import milliseconds
from funken.table.sql.expressions import ExpressionBinder, is_constant
from funken.table.sql.scopes import Scope, fail
from funken.table.sql.trees import cast
from funken.table.types import STRING, ArrayType, DoubleType, MapType, TimestampType, is_timestamp

_WINDOWS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
_REQUIRED = {"TUMBLE": 3, "HOP": 4, "CUMULATE": 4, "SESSION": 3}
CHANGELOG = {
    "TO_CHANGELOG": ("input", "op", "op_mapping", "produces_full_deletes", "on_time", "uid"),
    "FROM_CHANGELOG": ("input", "op", "op_mapping", "error_handling", "on_time", "uid"),
}
MODELS = {"ML_PREDICT": ("INPUT", "MODEL", "ARGS", "CONFIG")}
SEARCH = {"VECTOR_SEARCH": ("SEARCH_TABLE", "COLUMN_TO_SEARCH", "COLUMN_TO_QUERY", "TOP_K", "CONFIG")}


def bind_table_function(builder: Any, tree: exp.Anonymous) -> LogicalNode:
    """The relation of a call in FROM."""
    call = TableFunctionCall(builder, tree)
    name = call.name.upper()
    defined = builder.binder.function((call.name,))
    if defined is not None:
        return call.user(defined)
    if name in _WINDOWS:
        return call.window(name)
    if name in CHANGELOG:
        return call.changelog(name)
    if name in MODELS:
        return call.model(name)
    near = difflib.get_close_matches(name, [*_WINDOWS, *CHANGELOG, *MODELS, *SEARCH], 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    fail(tree, f"No match found for function signature {call.name}(..): there is no table function of this name.{hint}")


class TableFunctionCall:
    """Binds the arguments of one call."""

    def __init__(self, builder: Any, tree: exp.Anonymous) -> None:
        self.builder = builder
        self.binder = builder.binder
        self.tree = tree
        self.name = tree.this.name if isinstance(tree.this, exp.Identifier) else str(tree.this)

    def named(self, names: Sequence[str]) -> dict[str, Any]:
        """The arguments by name, whether they came by position or by name."""
        found: dict[str, Any] = {}
        for place, each in enumerate(self.tree.expressions):
            if isinstance(each, exp.Kwarg):
                match = [name for name in names if name.upper() == each.this.name.upper()]
                if not match:
                    fail(self.tree, f"Unknown argument '{each.this.name}'; the arguments are {', '.join(names)}")
                found[match[0]] = each.expression
            elif place >= len(names):
                fail(self.tree, f"{self.name} takes {len(names)} arguments: {', '.join(names)}")
            elif not isinstance(each, dialect.DefaultArgument):
                found[names[place]] = each
        return {name: tree for name, tree in found.items() if not isinstance(tree, dialect.DefaultArgument)}

    # -- arguments

    def table(self, tree: Any, what: str) -> tuple[LogicalNode, Any]:
        """A table argument: its relation, and the argument with PARTITION BY and ORDER BY if it has them."""
        argument = tree if isinstance(tree, dialect.TableOperand) else None
        inner = argument.this if argument is not None else tree
        if isinstance(inner, exp.Column):
            inner = exp.Table(this=inner.this, db=inner.args.get("table"), catalog=inner.args.get("db"))
        if not isinstance(inner, exp.Table | exp.Subquery | exp.Select):
            fail(tree, f"Argument {what} must be a table: TABLE name, or a query in parentheses")
        node, _, _ = self.builder.relation(inner)
        return node, argument

    def partition(self, argument: Any, node: LogicalNode) -> tuple[int, ...] | None:
        """Return the columns of PARTITION BY; ``None`` without the clause."""
        if argument is None or argument.args.get("partition") is None:
            return None
        return tuple(self.place(each, node) for each in argument.args["partition"])

    def order(self, argument: Any, node: LogicalNode) -> tuple[SortKey, ...]:
        """Return the sort keys of ORDER BY."""
        if argument is None or argument.args.get("order") is None:
            return ()
        return tuple(
            SortKey(self.place(each.this, node), not each.args.get("desc"), bool(each.args.get("nulls_first")))
            for each in argument.args["order"]
        )

    def place(self, tree: Any, node: LogicalNode) -> int:
        """Return the position of a column."""
        scope = Scope()
        scope.add(None, node.row_type)
        found = ExpressionBinder(scope, self.binder).bind(tree)
        if not isinstance(found, InputRef):
            fail(tree, "Only columns of the table are allowed here")
        return found.index

    def descriptor(self, tree: Any) -> list[exp.Identifier]:
        """Return the names of a DESCRIPTOR."""
        if not isinstance(tree, exp.Anonymous) or str(tree.this).upper() != "DESCRIPTOR":
            remedy = "write TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)), say"
            fail(tree, f"Expected DESCRIPTOR(column): {remedy}")
        for each in tree.expressions:
            if not isinstance(each, exp.Column | exp.Identifier):
                fail(
                    each, "A DESCRIPTOR names columns, but this is an expression. Name it in a view or a subquery first"
                )
        return [each.this if isinstance(each, exp.Column) else each for each in tree.expressions]

    def constant(self, tree: Any) -> Node:
        """Return a constant argument."""
        node: Node = self.binder.folded(ExpressionBinder(Scope(), self.binder).bind(tree))
        if not is_constant(node):
            fail(tree, "The argument must be a constant")
        return node

    # -- windows

    def window(self, name: str) -> LogicalNode:
        """Return the relation of a window function."""
        names = _WINDOWS[name]
        given = self.named(names)
        missing = [each for each in names[: _REQUIRED[name]] if each not in given]
        if missing:
            fail(
                self.tree, f"{name} needs the arguments {', '.join(names[: _REQUIRED[name]])}; {missing[0]} is missing"
            )
        node, argument = self.table(given["DATA"], "DATA")
        partition = self.partition(argument, node)
        if partition is not None and name != "SESSION":
            fail(
                self.tree,
                f"Only tables with set semantics may be partitioned. Invalid PARTITION BY clause of function '{name}': "
                "group by the column instead",
            )
        columns = self.descriptor(given["TIMECOL"])
        if len(columns) != 1 or columns[0].name not in node.row_type.names:
            times = [column.name for column in node.row_type if is_timestamp(column.type)]
            known = f". Its columns of time: {', '.join(times)}" if times else ". The table has no column of time"
            fail(given["TIMECOL"], f"Unknown identifier '{columns[0].name if columns else ''}'{known}")
        place = node.row_type.index(columns[0].name)
        column = node.row_type[place]
        if not is_timestamp(column.type):
            fail(
                self.tree,
                f"The window function {name}(TABLE, DESCRIPTOR({column.name}), ..) requires the timecol "
                f"to be TIMESTAMP or TIMESTAMP_LTZ, but is {column.type}. Name the column of the watermark, or convert it: "
                "TO_TIMESTAMP(text), TO_TIMESTAMP_LTZ(milliseconds, 3)",
            )
        lengths: dict[str, int] = {
            key: milliseconds(self.constant(given[key]), given[key])
            for key in ("SIZE", "SLIDE", "STEP", "GAP", "OFFSET")
            if key in given
        }
        self.check(name, lengths)
        window = WindowShape(
            WindowKind[name],
            place,
            lengths.get("SIZE", 0),
            lengths.get("SLIDE", lengths.get("STEP", 0)),
            lengths.get("GAP", 0),
            lengths.get("OFFSET", 0),
            partition or (),
        )
        border = TimestampType(3, is_nullable=False)
        time = OutputColumn("window_time", column.type.not_null(), column.time)
        columns_ = (OutputColumn("window_start", border), OutputColumn("window_end", border), time)
        return LogicalWindowTable(node, window, RelationType(node.row_type.columns + columns_))

    def check(self, name: str, lengths: Mapping[str, int]) -> None:
        """Refuse lengths that are no windows."""
        for key, value in lengths.items():
            if key != "OFFSET" and value <= 0:
                fail(self.tree, f"{name} table function requires {key.lower()} to be positive, but got {value} ms")
        step = lengths.get("STEP")
        if step and lengths["SIZE"] % step:
            fail(
                self.tree,
                "CUMULATE table function requires maxSize must be an integral multiple of step, but got "
                f"maxSize {lengths['SIZE']} ms and step {step} ms. The step comes first: CUMULATE(TABLE t, DESCRIPTOR(ts), step, "
                "maxSize)",
            )

    # -- process table functions

    def changelog(self, name: str) -> LogicalNode:
        """Return the relation of TO_CHANGELOG or FROM_CHANGELOG."""
        given = self.named(CHANGELOG[name])
        if "input" not in given:
            fail(self.tree, f"{name} needs the argument input => TABLE t")
        node, argument = self.table(given["input"], "input")
        op = "op"
        if "op" in given:
            columns = self.descriptor(given["op"])
            if len(columns) != 1:
                fail(
                    given["op"],
                    f"The descriptor for argument 'op' must contain exactly one column name, but has {len(columns)}",
                )
            op = columns[0].name
        scalars: list[tuple[str, Any]] = [("op", (op,))]
        if "op_mapping" in given:
            mapping = self.constant(given["op_mapping"])
            check_mapping(mapping, name, self.tree)
            scalars.append(("op_mapping", mapping))
        scalars += [(flag, self.choice(given[flag], flag)) for flag in _CHOICES if flag in given]
        partition = self.partition(argument, node)
        columns_ = [column.ordinary() for column in node.row_type]
        keys = [columns_[place] for place in partition or ()]
        rest = [column for place, column in enumerate(columns_) if place not in (partition or ())]
        if name == "TO_CHANGELOG":
            if dict(scalars).get("produces_full_deletes") is False:
                rest = [OutputColumn(column.name, column.type.nullable()) for column in rest]
            shown = [*keys, OutputColumn(op, STRING), *rest]
            if len({column.name for column in shown}) != len(shown):
                fail(self.tree, f"The table has a column '{op}' already; name another with op => DESCRIPTOR(name)")
        else:
            if op not in node.row_type.names:
                fail(self.tree, f"The op column '{op}' does not exist in the input table")
            shown = [*keys, *(column for column in rest if column.name != op)]
        table = TableArgument("input", partition, self.order(argument, node))
        return LogicalTableFunction(name, (node,), (table,), tuple(scalars), RelationType(tuple(shown)))

    def choice(self, tree: Any, name: str) -> Any:
        """Return an argument that is one of a few constants."""
        value = constant_text(self.constant(tree))
        if value not in _CHOICES[name]:
            shown = ", ".join(repr(each) if isinstance(each, str) else str(each).upper() for each in _CHOICES[name])
            fail(tree, f"Argument '{name}' must be one of {shown}, but is {value!r}")
        return value

    def model(self, name: str) -> LogicalNode:
        """Return the relation of ML_PREDICT."""
        given = self.named(MODELS[name])
        node, _ = self.table(given["INPUT"], "INPUT")
        tree = given.get("MODEL")
        if not isinstance(tree, dialect.ModelOperand):
            fail(self.tree, "ML_PREDICT needs the argument MODEL name")
        path = tuple(part.name for part in tree.this.parts)
        model = self.binder.catalogs.find("model", path)
        if not isinstance(model, CatalogModel):
            fail(tree, f"Model '{'.'.join(path)}' not found")
        columns = [column.name for column in self.descriptor(given["ARGS"])]
        if len(columns) != len(model.inputs):
            fail(self.tree, f"Model '{path[-1]}' takes {len(model.inputs)} columns, but {len(columns)} are given")
        places = []
        for column in columns:
            if column not in node.row_type.names:
                fail(given["ARGS"], f"Unknown identifier '{column}'")
            places.append(node.row_type.index(column))
        outputs = tuple(OutputColumn(column.name, column.type) for column in model.outputs)
        config = self.constant(given["CONFIG"]) if "CONFIG" in given else None
        scalars = (("model", self.binder.catalogs.identifier(path)), ("columns", tuple(places)), ("config", config))
        row_type = RelationType(node.row_type.columns + outputs)
        return LogicalTableFunction(
            name, (node,), (TableArgument("INPUT"),), scalars, row_type, definition=prediction(model, places)
        )

    def search(self, name: str, expressions: ExpressionBinder) -> TableCall:
        """Return the call of VECTOR_SEARCH, which is made for each row of another table."""
        names = SEARCH[name]
        given = self.named(names)
        missing = [each for each in names[:4] if each not in given]
        if missing:
            fail(self.tree, f"{name} needs the arguments {', '.join(names[:4])}; {missing[0]} is missing")
        node, _ = self.table(given["SEARCH_TABLE"], "SEARCH_TABLE")
        scan = node
        if not isinstance(scan, LogicalScan) or not has_vector_search(scan.table, self.binder.config):
            fail(given["SEARCH_TABLE"], f"{name} searches a table whose connector supports it: one that looks rows up")
        columns = self.descriptor(given["COLUMN_TO_SEARCH"])
        if len(columns) != 1:
            fail(given["COLUMN_TO_SEARCH"], f"{name} searches one column, not {len(columns)}")
        if columns[0].name not in scan.row_type.names:
            fail(columns[0], f"Unknown identifier '{columns[0].name}'")
        place = scan.row_type.index(columns[0].name)
        vector = expressions.bind(given["COLUMN_TO_QUERY"])
        for type_ in (scan.row_type[place].type, vector.type):
            if not isinstance(type_, ArrayType) or type_.element.root not in {"FLOAT", "DOUBLE"}:
                fail(self.tree, f"{name} compares vectors, ARRAY<FLOAT> or ARRAY<DOUBLE>, not {type_}")
        count = self.constant(given["TOP_K"])
        if not isinstance(count, Literal) or not isinstance(count.value, int) or count.value < 1:
            fail(given["TOP_K"], f"Expect parameter topK of {name} to be a positive INT")
        if "CONFIG" in given:
            self.constant(given["CONFIG"])
        shown = (*scan.row_type.columns, OutputColumn("score", DoubleType(is_nullable=False)))
        searched = tuple(scan.row_type.names)
        lookup = lookup_of(scan.table, searched, (), self.binder.config, scan.options)
        found = VectorSearch(str(scan.table.path), searched, place, lookup)
        return TableCall(name, (vector, count), RelationType(shown), found)

    def user(self, function: Any) -> LogicalNode:
        """A user's process table function; its ``signature`` has name, kind, type and traits of each argument."""
        if function.kind == "table":
            fail(self.tree, f"Table function {self.name} belongs behind LATERAL")
        if function.kind != "process":
            fail(self.tree, f"{self.name} is a {function.kind} function: it is no table")
        signature = list(function.signature)
        given = self.named([*(entry.name for entry in signature), "on_time", "uid"])
        tables: list[TableArgument] = []
        relations: list[LogicalNode] = []
        scalars: list[tuple[str, Any]] = []
        for entry in signature:
            tree = given.get(entry.name)
            if tree is None:
                if not getattr(entry, "optional", False):
                    fail(self.tree, f"Argument '{entry.name}' of {self.name} is missing")
            elif entry.kind == "table":
                node, argument = self.table(tree, entry.name)
                partition = self.partition(argument, node)
                if partition is None and "set" in entry.traits:
                    if "optional_partition_by" not in entry.traits:
                        fail(
                            tree,
                            f"Table argument '{entry.name}' requires a PARTITION BY clause for parallel processing.",
                        )
                    partition = ()
                tables.append(TableArgument(entry.name, partition, self.order(argument, node), len(relations)))
                relations.append(node)
            elif isinstance(tree, exp.Anonymous) and str(tree.this).upper() == "DESCRIPTOR":
                scalars.append((entry.name, tuple(column.name for column in self.descriptor(tree))))
            else:
                scalars.append((entry.name, self.scalar(tree, entry)))
        on_time = self.times(given.get("on_time"), tables, relations)
        uid = self.constant(given["uid"]) if "uid" in given else None
        return LogicalTableFunction(
            self.name,
            tuple(relations),
            tuple(tables),
            tuple(scalars),
            self.result(function, tables, relations, on_time, scalars),
            function,
            on_time,
            uid.value if isinstance(uid, Literal) else None,
        )

    def scalar(self, tree: Any, entry: Any) -> Node:
        """Return a scalar argument, of the type that the function wants."""
        node = self.constant(tree)
        wanted = getattr(entry, "type", None)
        return node if wanted is None else self.binder.folded(cast(node, wanted))

    def times(
        self, tree: Any, tables: Sequence[TableArgument], relations: Sequence[LogicalNode]
    ) -> tuple[int | None, ...]:
        """Return the column of ``on_time`` per table."""
        if tree is None:
            return ()
        names = [column.name for column in self.descriptor(tree)]
        found: list[int | None] = []
        for table in tables:
            row_type = relations[table.relation].row_type
            places = [row_type.index(name) for name in names if name in row_type.names]
            found.append(places[0] if places else None)
        if all(place is None for place in found):
            fail(tree, f"Invalid time attribute declaration: column '{', '.join(names)}' is in no table argument")
        for place, table in zip(found, tables, strict=True):
            if place is not None and relations[table.relation].row_type[place].time is None:
                fail(tree, f"Column '{relations[table.relation].row_type[place].name}' is not a valid time attribute.")
        return tuple(found)

    def result(
        self,
        function: Any,
        tables: Sequence[TableArgument],
        relations: Sequence[LogicalNode],
        on_time: tuple[int | None, ...],
        scalars: Sequence[tuple[str, Any]],
    ) -> RelationType:
        """Return the columns of a function: partition or whole row, its own, and the time."""
        columns: list[OutputColumn] = []
        for table in tables:
            row_type = relations[table.relation].row_type
            if function.passes_columns(table.name):
                columns += row_type.columns
            else:
                columns += [row_type[place] for place in table.partition or ()]
        types = {table.name: relations[table.relation].row_type for table in tables}
        columns += [OutputColumn(name, type_) for name, type_ in function.columns(types, dict(scalars))]
        timed = next((place for place in enumerate(on_time) if place[1] is not None), None)
        if timed is not None:
            time = relations[tables[timed[0]].relation].row_type[timed[1] or 0]
            columns.append(OutputColumn("rowtime", time.type.not_null(), TimeAttribute.ROWTIME))
        names: dict[str, int] = {}
        unique = []
        for column in columns:
            name, count = column.name, 0
            while name in names:
                name, count = f"{column.name}{count}", count + 1
            names[name] = 0
            unique.append(OutputColumn(name, column.type, column.time))
        return RelationType(tuple(unique))


_KINDS = {"INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"}
_CHOICES: dict[str, tuple[Any, ...]] = {"error_handling": ("FAIL", "SKIP"), "produces_full_deletes": (True, False)}


def check_mapping(node: Node, name: str, tree: Any) -> None:
    """Refuse a mapping of row kinds that names others, or one twice."""
    pairs = constant_pairs(node)
    if pairs is None or not isinstance(node.type, MapType):
        fail(tree, "op_mapping must be a constant MAP of texts")
    seen: set[str] = set()
    for key, value in pairs:
        kinds = key if name == "TO_CHANGELOG" else value
        for kind in (part.strip() for part in str(kinds).split(",")):
            if kind not in _KINDS:
                fail(tree, f"Unknown change operation: '{kind}'. Valid values are: {', '.join(sorted(_KINDS))}.")
            if kind in seen:
                fail(
                    tree, f"Duplicate change operation: '{kind}'. Use comma-separated keys to map several to one code."
                )
            seen.add(kind)


def constant_pairs(node: Node) -> list[tuple[Any, Any]] | None:
    """The entries of a constant map."""
    if isinstance(node, Literal) and isinstance(node.value, list):
        return [tuple(pair) for pair in node.value]
    if getattr(node, "function", "") == "MAP":
        values = [constant_text(child) for child in node.children]
        return list(zip(values[::2], values[1::2], strict=True))
    return None


def constant_text(node: Node) -> Any:
    """Return the value of a constant below casts."""
    while not isinstance(node, Literal) and node.children:
        node = node.children[0]
    return getattr(node, "value", None)
