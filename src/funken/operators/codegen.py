"""Turns a user's function into an expression, so that a generated loop can hold its body instead of calling it.

``expression_of`` succeeds only for functions whose bytecode is one straight line from the arguments to the result:
arithmetic, comparisons, subscripts, attributes, calls of methods and of built-in functions, displays of tuples, lists,
sets and dicts, f-strings. The expression does the same operations on the same objects in the same order; what it leaves
out is the frame of the call, which is half of what a short lambda costs. Variables of closures and of modules stay what they
are: ``OuterVariables`` gives the loop the closure's own cells and the module's own namespace. Whatever is not known here
(branches, keyword arguments, calls of functions in such variables) is called as before, and so is everything while a
debugger or coverage watches. Methods are called by names that the built-in types have: one of the program may look at its caller.
"""

from __future__ import annotations

import ast
import builtins
import copy
import datetime
import decimal
import math
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any, TypeAlias, cast

from funken.columnar.block import TupleBlock
from funken.columnar.bytecode import UnknownBytecode, goes_on, is_plain, operations, positions
from funken.dataclass import dataclass
from funken.operators.base import Operator

# ---- Frames of functions that were not called: what a traceback shows of a function whose body a generated loop
# holds.
#
# A frame is that of a function of the same name, file, line, globals and arguments, which does nothing but raise.


Position: TypeAlias = "tuple[int | None, int | None, int | None, int | None]"
"""First and last line, first and last column, as ``dis`` has them."""
_MARK = "the exception"
"""Constant of the code in whose place the exception is put: a variable would be among the locals of the frame."""


class _Raised(Exception):
    """Raised in a frame for its traceback."""


def frame_of(function: FunctionType, arguments: Sequence[Any], position: Position) -> TracebackType:
    """Return the traceback of a frame of a function at a position, with these arguments; nothing of the function runs.

    >>> import traceback
    >>> def half(number):
    ...     return number / 2
    >>> frame = frame_of(half, ["a"], (half.__code__.co_firstlineno + 1, None, None, None))
    >>> frame.tb_frame.f_code.co_name, frame.tb_frame.f_locals, frame.tb_lineno - half.__code__.co_firstlineno
    ('half', {'number': 'a'}, 1)
    """
    code = _raising(function.__code__, position)
    try:
        FunctionType(code, function.__globals__, code.co_name)(*arguments)
    except _Raised as raised:
        trace = raised.__traceback__
    assert trace is not None
    assert trace.tb_next is not None
    return trace.tb_next


def _raising(code: CodeType, position: Position) -> CodeType:
    line, end_line, begin, end = position
    line = line or code.co_firstlineno
    place: dict[str, Any] = {
        "lineno": line,
        "end_lineno": end_line or line,
        "col_offset": begin or 0,
        "end_col_offset": end or begin or 0,
    }
    names = [ast.arg(name, **place) for name in code.co_varnames[: code.co_argcount]]
    given = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    body: list[ast.stmt] = [ast.Raise(ast.Constant(_MARK, **place), **place)]
    last = max(code.co_firstlineno, line, end_line or line)
    first: dict[str, Any] = {"lineno": code.co_firstlineno, "end_lineno": last, "col_offset": 0, "end_col_offset": 0}
    whole = ast.FunctionDef("function", given, body, [], **first)
    module = compile(ast.Module([whole], []), code.co_filename, "exec")
    (made,) = (constant for constant in module.co_consts if isinstance(constant, CodeType))
    constants: Any = tuple(_Raised if each == _MARK else each for each in made.co_consts)
    return made.replace(co_name=code.co_name, co_qualname=code.co_qualname, co_consts=constants)


_LONGEST = 60
"""Instructions of a function that is worth reading: of a longer one, the call is a small part."""

_BINARY: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "**": ast.Pow,
    "&": ast.BitAnd, "|": ast.BitOr, "^": ast.BitXor, "<<": ast.LShift, ">>": ast.RShift, "@": ast.MatMult,
}  # fmt: skip
_COMPARE: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, "==": ast.Eq, "!=": ast.NotEq, ">": ast.Gt, ">=": ast.GtE,
}  # fmt: skip
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not one of those that are compiled into the interpreter
_LOOK_AT_FRAMES = {"locals", "globals", "vars", "dir", "eval", "exec", "super", "__import__", "breakpoint"}
_SYSTEM = {"sys", "posix", "nt", "_thread", "time", "gc", "_warnings", "faulthandler", "_tracemalloc", "_imp"}
"""Modules of functions that look at frames or at the process, or act on it: ``sys.exit``, ``os.remove``, ``warnings.warn``."""
_TYPES = (
    str, bytes, bytearray, memoryview, bool, int, float, complex, list, tuple, dict, set, frozenset, range, slice,
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone, decimal.Decimal, re.Pattern, re.Match,
)  # fmt: skip
_WARN = {"utcnow", "utcfromtimestamp"}
"""Methods that warn of the line that calls them."""
_METHODS = {name for each in _TYPES for name in dir(each) if not name.startswith("_")} - _WARN
"""Names of methods that are called in a loop, whatever object has them."""
_NO_IDENTITY = {int, float, complex, str, bytes}
_CONVERSIONS = (-1, ord("s"), ord("r"), ord("a"))


class _Unreadable(Exception):
    """The bytecode holds something that is not read here."""


class _Null:
    """The placeholder that the interpreter pushes beside a callable that is no method."""


_NULL: Any = _Null()


def watched() -> bool:
    """Return True if a tracer or debugger is active, which would miss the frames.

    >>> watched() or expression_of(lambda pair: pair[0], ["value"])
    'value[0]'
    """
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in range(6))


class OuterVariables:
    """Names for the outer variables of the bodies in one loop."""

    def __init__(self) -> None:
        #: Free variables of the loop, by name: to be its closure.
        self.cells: dict[str, CellType] = {}
        #: Namespaces of modules, by the name of a free variable of the loop.
        self.modules: dict[str, dict[str, Any]] = {}
        #: Objects whose methods the bodies are, by the name of a free variable of the loop.
        self.owners: dict[str, Any] = {}
        #: The namespace that the loop runs in: that of its first function.
        self.globals: dict[str, Any] | None = None

    def cell(self, cell: CellType) -> str:
        """Return the name of the variable that is a cell."""
        return _name_in(self.cells, cell, "free")

    def module(self, namespace: dict[str, Any]) -> str:
        """Return the name of the variable that holds a module's namespace."""
        return _name_in(self.modules, namespace, "module")

    def unbound(self, call: Callable[..., Any], arguments: Sequence[str]) -> tuple[Callable[..., Any], tuple[str, ...]]:
        """Return a method as the function that it is, with its object as the first argument; another function as it is."""
        if type(call) is not MethodType:
            return call, (*arguments,)
        return call.__func__, (_name_in(self.owners, call.__self__, "owner"), *arguments)


def _name_in(known: dict[str, Any], value: Any, kind: str) -> str:
    for name, each in known.items():
        if each is value:
            return name
    known[f"{kind}{len(known)}"] = value
    return f"{kind}{len(known) - 1}"


def expression_of(
    function: Callable[..., Any], arguments: Sequence[str], outside: OuterVariables | None = None
) -> str | None:
    """Return a function's result as an expression of variables named ``arguments``; ``None`` if it cannot be read.

    Methods, and functions that use variables of a closure or a module, are read if there is an ``outside`` to name them.

    >>> expression_of(lambda i: (i % 10, f"<{i}>"), ["value"])
    "(value % 10, f'<{value}>')"
    >>> expression_of(lambda a, b: a if a > b else b, ["old", "value"]) is None
    True
    >>> def modulo(keys):
    ...     return lambda i: i % keys
    >>> expression_of(modulo(10), ["value"], OuterVariables())
    'value % free0'
    """
    if outside is not None:
        function, arguments = outside.unbound(function, arguments)
    if type(function) is not FunctionType or watched():
        return None
    code = function.__code__
    if (
        not is_plain(code)
        or code.co_argcount != len(arguments)
        or code.co_cellvars
        or len(code.co_code) > 2 * 4 * _LONGEST
        or _builtins_of(function) is not vars(builtins)
    ):
        return None
    names = dict(zip(code.co_varnames, arguments, strict=False))
    try:
        read = ast.unparse(_Reader(function, names, outside).read())
    except (
        _Unreadable,
        UnknownBytecode,
        ValueError,
    ):  # a ValueError of unparse: strings that cannot be nested in one another
        return None
    if outside is not None and outside.globals is None:
        outside.globals = function.__globals__
    return read


def nodes_of(
    function: FunctionType, arguments: Sequence[str], parts: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, Position]]:
    """Return the operations of a function that was read, from left to right, as a line has them, and where they are in its file.

    The whole comes before its parts. ``parts`` are the variables that hold the fields of an argument.

    >>> [text for text, _ in nodes_of(lambda pair: (pair[0], pair[1].strip()), ["value"], {"value": ("value_0", "value_1")})]
    ['(value_0, value_1.strip())', 'value_1.strip()', 'value_1.strip']
    """
    names = dict(zip(function.__code__.co_varnames, arguments, strict=False))
    reader = _Reader(function, names, OuterVariables())
    whole = reader.read()
    found: list[tuple[str, Position]] = []

    def add(node: ast.AST) -> None:
        if node in reader.places:
            shown = FieldVariables(parts).visit(copy.deepcopy(node))
            if not isinstance(shown, ast.Name | ast.Constant):  # they cannot fail
                found.append((ast.unparse(shown), reader.places[node]))
        for each in ast.iter_child_nodes(node):
            add(each)

    add(whole)
    return found


class FieldVariables(ast.NodeTransformer):
    """Replaces the fields of tuples that are not made by the variables that hold them."""

    def __init__(self, parts: Mapping[str, Sequence[str]]) -> None:
        self._parts = parts
        #: whether one of the tuples itself is used
        self.whole = False

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Replace a field."""
        match node:
            case ast.Subscript(ast.Name(name), ast.Constant(int() as index)) if (
                type(index) is int and name in self._parts and 0 <= index < len(self._parts[name])
            ):
                return ast.Name(self._parts[name][index])
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Note a tuple that is used."""
        self.whole = self.whole or node.id in self._parts
        return node


def _builtins_of(function: FunctionType) -> Any:
    return getattr(function, "__builtins__", None)


class _Reader:
    """The interpreter's stack, with expressions on it in place of objects."""

    def __init__(self, function: FunctionType, names: dict[str, str], outside: OuterVariables | None) -> None:
        self._function = function
        self._names = names
        self._outside = outside
        #: What variables from outside hold, by the node that loads them: to know what is called.
        self._held: dict[ast.expr, Any] = {}
        self._stack: list[Any] = []
        #: Where in the file what was read is.
        self.places: dict[ast.AST, Position] = {}

    def read(self) -> ast.expr:
        """Return the function's result as an expression."""
        code = self._function.__code__
        for operation, place in zip(operations(code), positions(code), strict=True):
            if operation.name == "RETURN_VALUE":
                return self._pop()
            step = _STEPS.get(operation.name)
            if step is None:
                break
            made = step(self, operation.argument)
            self._stack.append(made)
            if isinstance(made, ast.expr):
                self.places.setdefault(made, place)
        raise _Unreadable

    def _pop(self) -> ast.expr:
        if not self._stack or self._stack[-1] is _NULL:
            raise _Unreadable
        top: ast.expr = self._stack.pop()
        return top

    def _pop_many(self, count: int) -> list[ast.expr]:
        taken = [self._pop() for _ in range(count)]
        return taken[::-1]

    def _variable(self, name: str) -> ast.expr:
        if name not in self._names:
            raise _Unreadable
        return ast.Name(self._names[name])

    def _method(self, name: str) -> ast.expr:
        found = self._attribute(name)
        self._stack.append(_NULL)
        return found

    def _binary(self, op: str) -> ast.expr:
        if op not in _BINARY:  # ``+=`` and its like may change an object
            raise _Unreadable
        left, right = self._pop_many(2)
        return ast.BinOp(left, _BINARY[op](), right)

    def _subscript(self, _: Any) -> ast.expr:
        whole, item = self._pop_many(2)
        return ast.Subscript(_not_constant(whole), item)

    def _compare(self, operator: type[ast.cmpop] | None) -> ast.expr:
        if operator is None:
            raise _Unreadable
        left, right = self._pop_many(2)
        return ast.Compare(left, [operator()], [right])

    def _is(self, inverted: int) -> ast.expr:
        if any(isinstance(side, ast.Constant) and type(side.value) in _NO_IDENTITY for side in self._stack[-2:]):
            raise _Unreadable  # the compiler would warn
        return self._compare(ast.IsNot if inverted else ast.Is)

    def _set(self, count: int) -> ast.expr:
        if not count:
            raise _Unreadable
        return ast.Set(self._pop_many(count))

    def _dict(self, count: int) -> ast.expr:
        items = self._pop_many(2 * count)
        return ast.Dict(list(items[::2]), items[1::2])

    def _const_key_dict(self, count: int) -> ast.expr:
        keys = self._pop()
        assert isinstance(keys, ast.Tuple)
        return ast.Dict(list(keys.elts), self._pop_many(count))

    def _hold(self, node: ast.expr, value: Any) -> ast.expr:
        if _looks_at_frames(value):
            raise _Unreadable  # also if something else is given it to call
        self._held[node] = value
        return node

    def _attribute(self, name: str) -> ast.expr:
        owner = self._pop()
        node = ast.Attribute(owner, name)
        if owner not in self._held:
            return node
        value = self._held[owner]
        asked = isinstance(value, ModuleType | type) or type(value).__module__ in ("builtins", "re")
        return self._hold(node, getattr(value, name, None) if asked else None)

    def _free(self, name: str) -> ast.expr:
        cell = (self._function.__closure__ or ())[self._function.__code__.co_freevars.index(name)]
        if self._outside is None:
            raise _Unreadable
        return self._hold(ast.Name(self._outside.cell(cell)), cell.cell_contents)  # a ValueError if it is empty

    def _global(self, name: str) -> ast.expr:
        # A name that the program's module does not have is looked up among the built-in ones, as the function would.
        namespace = self._function.__globals__
        if name in namespace and self._outside is not None:
            item = ast.Subscript(ast.Name(self._outside.module(namespace)), ast.Constant(name))
            return self._hold(item, namespace[name])
        if name in namespace or not hasattr(builtins, name):
            raise _Unreadable
        if name in _LOOK_AT_FRAMES:
            raise _Unreadable
        space = None if self._outside is None else self._outside.globals
        if space is not None and space is not namespace and name in space:
            raise _Unreadable  # in the module that the loop runs in, it is something else
        return ast.Name(name)

    def _call(self, count: int) -> ast.expr:
        arguments = self._pop_many(count)
        under = self._stack[-2:]
        if len(under) != 2 or sum(item is _NULL for item in under) != 1:  # 3.13 pushes the two the other way round
            raise _Unreadable
        del self._stack[-2:]
        (callee,) = (item for item in under if item is not _NULL)
        if not self._may_call(callee):
            raise _Unreadable
        return ast.Call(_not_constant(callee), arguments, [])

    def _may_call(self, callee: ast.expr) -> bool:
        """Return True if a callee is built in, or named like a built-in method: others may look at their caller."""
        if callee in self._held:
            return _is_built_in(self._held[callee])
        match callee:
            case ast.Name(name):
                return hasattr(builtins, name) and name not in self._names.values()
            case ast.Attribute(attr=name):
                return name in _METHODS
        return False

    def _format(self, form: tuple[int, bool]) -> ast.expr:
        conversion, spec = _CONVERSIONS[form[0]], self._pop() if form[1] else None
        if isinstance(spec, ast.Constant):
            spec = ast.JoinedStr([spec])
        elif spec is not None and not isinstance(spec, ast.JoinedStr):
            raise _Unreadable
        value = self._pop()
        if isinstance(value, ast.FormattedValue):  # 3.13 has an instruction of its own for the conversion
            conversion, value = value.conversion, value.value
        return ast.JoinedStr([ast.FormattedValue(value, conversion, spec)])


_STEPS: dict[str, Callable[[_Reader, Any], Any]] = {
    "LOAD_FAST": _Reader._variable,
    "LOAD_CONST": lambda _, value: _constant(value),
    "LOAD_GLOBAL": _Reader._global,
    "LOAD_DEREF": _Reader._free,
    "LOAD_ATTR": _Reader._attribute,
    "LOAD_METHOD": _Reader._method,
    "PUSH_NULL": lambda _, __: _NULL,
    "CALL": _Reader._call,
    "BINARY_OP": _Reader._binary,
    "BINARY_SUBSCR": _Reader._subscript,
    "UNARY_NEGATIVE": lambda reader, _: ast.UnaryOp(ast.USub(), reader._pop()),
    "UNARY_INVERT": lambda reader, _: ast.UnaryOp(ast.Invert(), reader._pop()),
    "UNARY_NOT": lambda reader, _: ast.UnaryOp(ast.Not(), reader._pop()),
    "TO_BOOL": lambda reader, _: reader._pop(),  # before ``not``, which does the same; nowhere else in a straight line
    "COMPARE_OP": lambda reader, op: reader._compare(_COMPARE.get(op)),
    "CONTAINS_OP": lambda reader, inverted: reader._compare(ast.NotIn if inverted else ast.In),
    "IS_OP": _Reader._is,
    "BUILD_TUPLE": lambda reader, count: ast.Tuple(reader._pop_many(count)),
    "BUILD_LIST": lambda reader, count: ast.List(reader._pop_many(count)),
    "BUILD_SET": _Reader._set,
    "BUILD_MAP": _Reader._dict,
    "BUILD_CONST_KEY_MAP": _Reader._const_key_dict,
    "BUILD_STRING": lambda reader, count: ast.JoinedStr([_part(part) for part in reader._pop_many(count)]),
    "FORMAT": _Reader._format,
    "CONVERT_VALUE": lambda reader, conversion: ast.FormattedValue(reader._pop(), _CONVERSIONS[conversion]),
}


def _is_built_in(called: Any) -> bool:
    if isinstance(called, BuiltinFunctionType):
        return not _looks_at_frames(called) and called.__name__ not in _WARN
    return isinstance(called, type) and not called.__flags__ & _HEAP_TYPE


def _looks_at_frames(value: Any) -> bool:
    if isinstance(value, BuiltinFunctionType):
        return value.__module__ in _SYSTEM or (value.__module__ == "builtins" and value.__name__ in _LOOK_AT_FRAMES)
    return value is super


def _part(part: ast.expr) -> ast.expr:
    if isinstance(part, ast.JoinedStr) and len(part.values) == 1:
        return part.values[0]
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return part
    raise _Unreadable


def _not_constant(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant):
        raise _Unreadable  # the compiler would warn, and it has done so already
    return node


def _constant(value: Any) -> ast.expr:
    """Return a constant as an expression with an equal value of the same type."""
    if type(value) is tuple:
        return ast.Tuple([_constant(item) for item in value])
    if type(value) is float and not math.isfinite(value):
        raise _Unreadable
    if type(value) is int and abs(value) >= 1 << 64:
        raise _Unreadable
    if value is None or type(value) in (bool, int, float, str, bytes):
        return ast.Constant(value)
    raise _Unreadable


# ---- Loops over blocks, generated and compiled when an operator is set up: their source, and which operator each
# line is of.
#
# A line belongs to a step: an operator, the variable that holds its record, and the user's function. Where the
# function could be read (``expression_of``) its body is on the line, else a call of it. The loop runs in the module
# of the first function that it holds: C code that imports, warns or makes a class looks at the globals of the frame
# that calls it. What the loop itself uses are its free variables, so no name of the module can hide them.
#
# Errors look as if the function had been called: ``step_at`` returns operator and record of a traceback's frame,
# and ``add_frames`` adds the frames of the user's functions where the loop has left them out. It makes these
# frames; it calls no function again.


@dataclass(frozen=True)
class LoopStep:
    """A line of a loop: ``function(*arguments)``, for an operator; the ``arguments`` are variables, and one is the ``record``."""

    operator: Operator
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    inlined: bool
    expression: str
    record: str
    key: bool = False
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The variables that hold the fields of an argument, a tuple that is not made (``fields.py``)."""

    def values(self, variables: Mapping[str, Any]) -> list[Any]:
        """Return the arguments, out of the variables of the loop; raises ``KeyError`` if one is not there."""
        return [self._value(name, variables) for name in self.arguments]

    def record_in(self, variables: Mapping[str, Any]) -> Any:
        """Return the record, out of the variables of the loop; raises ``KeyError`` if it is not there."""
        return self._value(self.record, variables)

    def _value(self, name: str, variables: Mapping[str, Any]) -> Any:
        return tuple(variables[part] for part in self.parts[name]) if name in self.parts else variables[name]


@dataclass(frozen=True)
class _Line:
    text: str
    step: LoopStep


class _Lines(dict[int, _Line]):
    """The lines of a loop that belong to steps; its function holds them."""


class _LinesOf:
    """A constant of a loop's code, so that a frame leads to the lines.

    It holds them weakly: Python's collector does not look into code, so that a way from there to the operators, and with them
    to the loop, would keep each job for ever.
    """

    def __init__(self, lines: _Lines) -> None:
        self.held = weakref.ref(lines)


class LoopText:
    """The source of one function, line by line; without ``inlining`` it calls every function."""

    def __init__(self, name: str, parameters: str, inlining: bool = True) -> None:
        self._lines = [f"def {name}({parameters}):"]
        self._name = name
        self._namespace: dict[str, Any] = {}
        self._outside = OuterVariables()
        self._steps = _Lines()
        self._depth = 1
        self._inlining = inlining

    def step(self, operator: Operator, function: Callable[..., Any], *arguments: str, record: str = "") -> LoopStep:
        """Return the step that computes ``function(*arguments)``. ``record``: the argument that is the record (the last one)."""
        record = record or arguments[-1]
        expression = expression_of(function, arguments, self._outside) if self._inlining else None
        if expression is not None:
            return LoopStep(operator, *self._outside.unbound(function, arguments), True, f"({expression})", record)
        name = self.name(f"call{len(self._namespace)}", function)
        return LoopStep(operator, function, arguments, False, f"{name}({', '.join(arguments)})", record)

    def name(self, name: str, value: Any) -> str:
        """Make an object known by a name, which no built-in function may have."""
        self._namespace[name] = value
        return name

    def line(self, text: str, step: LoopStep | None = None) -> None:
        """Add a line; one that ends in a colon opens a block for those after it."""
        self._lines.append("    " * self._depth + text)
        if step is not None:
            self._steps[len(self._lines)] = _Line(self._lines[-1], step)
        self._depth += text.endswith(":")

    def dedent(self) -> None:
        """End the innermost block."""
        self._depth -= 1

    def close(self) -> None:
        """End all blocks but the function itself."""
        self._depth = 1

    def compile(self) -> Callable[..., Any]:
        """Return the function."""
        body, cells = ast.parse("\n".join(self._lines)), self._cells()
        outside = ast.parse(f"def outside({', '.join(cells)}): pass")  # its parameters are the loop's free variables
        cast(ast.FunctionDef, outside.body[0]).body = body.body
        code = compile(outside, f"<funken operators, {self._name}>", "exec")
        for _ in range(2):
            (code,) = (constant for constant in code.co_consts if isinstance(constant, CodeType))
        code = code.replace(co_consts=(*code.co_consts, cast("Any", _LinesOf(self._steps))))
        space = globals() if self._outside.globals is None else self._outside.globals
        loop = FunctionType(code, space, self._name, None, tuple(cells[name] for name in code.co_freevars))
        loop.__dict__["lines"] = self._steps
        return loop

    def _cells(self) -> dict[str, CellType]:
        """Return the free variables: the cells of the user's functions, and the loop's own."""
        own = {**self._namespace, **self._outside.modules, **self._outside.owners}
        return {**{name: CellType(value) for name, value in own.items()}, **self._outside.cells}


def step_at(trace: TracebackType) -> LoopStep | None:
    """Return the step that a frame of a traceback was at; ``None`` if it is no generated loop's."""
    return step_of(trace.tb_frame.f_code, trace.tb_lineno)


def step_of(code: CodeType, line: int | None) -> LoopStep | None:
    """Return the step of a line of a function; ``None`` if it is no generated loop, or the line does nothing of the user's."""
    found = _line_of(code, line)
    return None if found is None else found.step


def _line_of(code: CodeType, line: int | None) -> _Line | None:
    last = code.co_consts[-1] if code.co_consts else None
    lines = last.held() if isinstance(last, _LinesOf) else None
    return None if lines is None or line is None else lines.get(line)


def add_frames(error: BaseException) -> None:
    """Add to a traceback the frames of the functions whose bodies the loops in it hold; nothing is called again."""
    trace = error.__traceback__
    while trace is not None:
        line = _line_of(trace.tb_frame.f_code, trace.tb_lineno)
        if line is not None and line.step.inlined:
            frame = _frame_in(line, trace)
            if frame is not None:
                frame.tb_next, trace.tb_next = trace.tb_next, frame
                trace = frame
        trace = trace.tb_next


def _frame_in(line: _Line, trace: TracebackType) -> TracebackType | None:
    """Return the frame of a function where a line holds its body; ``None`` if the line failed elsewhere."""
    step = line.step
    position = _position(line, trace)
    if position is None:
        return None
    try:
        arguments = step.values(trace.tb_frame.f_locals)
    except KeyError:
        return None
    return frame_of(cast(FunctionType, step.function), arguments, position)


def _position(line: _Line, trace: TracebackType) -> Position | None:
    """Return the failed part of the function, by that of the line; ``None`` if it is no part of the function."""
    code = trace.tb_frame.f_code
    if goes_on(code, trace.tb_lasti):
        return None
    _, _, begin, end = list(code.co_positions())[trace.tb_lasti // 2]
    whole = nodes_of(cast(FunctionType, line.step.function), line.step.arguments, line.step.parts)
    of_line = [each for each in whole if each[0] in line.text]
    if not of_line or begin is None or end is None:  # python -X no_debug_ranges
        return of_line[0][1] if of_line else None
    failed = line.text.encode()[begin:end].decode()
    alike = [place for text, place in whole if text == failed]
    if alike:
        before = [text for at, text in _parts(line.text) if at < (begin, -end)]
        return alike[min(before.count(failed), len(alike) - 1)]
    return (
        of_line[0][1] if "f'" in line.text or 'f"' in line.text else None
    )  # positions in an f-string are those of the text


def _parts(text: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield where the expressions in a line begin and, with a minus, end, and the expressions."""
    found = text.strip()
    try:
        tree = ast.parse(f"{found} pass" if found.endswith(":") else found)
    except SyntaxError:  # "elif", "except", "return": none of them is repeated
        return
    margin = len(text) - len(text.lstrip())
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node.end_col_offset is not None:
            segment = found.encode()[node.col_offset : node.end_col_offset].decode()
            yield (node.col_offset + margin, -node.end_col_offset - margin), segment


# ---- Tuples that a generated loop need not make: their fields are variables of it (``runtime/chain/fused.py``,
# ``rolling.py``).


_LITERALS = {int, float, str, bytes, bool, type(None)}
_MOST = 8
"""A tuple of more fields is made: so many appends would cost more than it."""


def fields_made(step: LoopStep) -> list[str] | None:
    """Return the fields of the tuple that a step makes, as expressions in the order of their evaluation; ``None`` if it may not.

    >>> from funken.operators.codegen import LoopText
    >>> text = LoopText("loop", "values")
    >>> fields_made(text.step(None, lambda i: (i % 10, 1), "value"))
    ['value % 10', '1']
    >>> fields_made(text.step(None, lambda i: i + 1, "value"))
    """
    if not step.inlined:
        return None
    made = ast.parse(step.expression, mode="eval").body
    if not isinstance(made, ast.Tuple) or not 0 < len(made.elts) <= _MOST:
        return None
    return [ast.unparse(field) for field in made.elts]


def constant_of(name: str, expression: str) -> dict[str, Any]:
    """Return a variable's value by its name if the expression is an immutable literal; else nothing.

    >>> constant_of("value_1", "-1"), constant_of("value_1", "[]"), constant_of("value_1", "value % 10")
    ({'value_1': -1}, {}, {})
    """
    try:
        value = ast.literal_eval(expression)
    except (ValueError, TypeError, SyntaxError):
        return {}
    return {name: value} if type(value) in _LITERALS else {}


def by_field(step: LoopStep, name: str, fields: Sequence[str]) -> LoopStep | None:
    """Return a step that uses variables for the fields of its argument ``name``, a tuple; ``None`` if it needs the tuple.

    >>> from funken.operators.codegen import LoopText
    >>> text = LoopText("loop", "values")
    >>> by_field(text.step(None, lambda pair: pair[0], "value"), "value", ["value_0", "value_1"]).expression
    '(value_0)'
    >>> by_field(text.step(None, lambda pair: (pair[0], pair), "value"), "value", ["value_0", "value_1"])
    """
    if not step.inlined:
        return None
    reader = FieldVariables({name: tuple(fields)})
    found = reader.visit(ast.parse(step.expression, mode="eval").body)
    if reader.whole:
        return None
    return replace(step, expression=f"({ast.unparse(found)})", parts={**step.parts, name: tuple(fields)})


def names_of_fields(name: str, form: tuple[int, ...]) -> tuple[list[str], str, list[str]]:
    """Return the variables of a loop over a ``TupleBlock`` of a form: for all fields, the loop's target, and the constants.

    A form of no fields is that of whole records. ``rows_of_fields`` is what the loop runs over.

    >>> names_of_fields("value", (3, 1)), names_of_fields("value", (2, 1)), names_of_fields("value", ())
    ((['value_0', 'value_1', 'value_2'], '[value_0, value_2]', ['value_1']),
     (['value_0', 'value_1'], 'value_0', ['value_1']), ([], 'value', []))
    """
    if not form:
        return [], name, []
    width, *places = form
    names = [f"{name}_{number}" for number in range(width)]
    varying = [each for number, each in enumerate(names) if number not in places]
    each = varying[0] if len(varying) == 1 else f"[{', '.join(varying)}]"  # to take a row apart costs 14 ns
    return names, each, [names[place] for place in places]


def rows_of_fields(block: TupleBlock) -> Iterable[Any]:
    """Return the iterable of a loop over the fields of tuples: the varying fields, row by row."""
    fields = block.fields
    return fields[0] if len(fields) == 1 else zip(*fields, strict=True)
