"""Functions as a program declares them: what is called, with which annotations, and where it is created."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing
from typing import Any

from funken.dataclass import dataclass
from funken.dataframe.types import DataType, type_of_hint
from funken.errors import FunkenError
from funken.table.schema import engine_type
from funken.table.types import DataTypes, LogicalType, RowType
from funken.table.udf import AggregateFunction, AsyncScalarFunction, ScalarFunction, TableFunction, UserDefinedFunction

_EMITS = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator, list)
_UNKNOWN: Any = object()
_METADATA = ("__module__", "__qualname__", "__doc__")


@dataclass(frozen=True)
class DeclaredFunction:
    """A function, object or class of the program, and the callable whose annotations count."""

    function: Any
    called: Any

    @property
    def name(self) -> str:
        """The name of the function."""
        return name_of(self.function)

    @property
    def is_async(self) -> bool:
        """True for an ``async def``."""
        return inspect.iscoroutinefunction(self.called)

    def metadata(self) -> dict[str, Any]:
        """Return the module, the qualified name and the docstring."""
        own = _inner(self.function)
        return {key: getattr(own, key) for key in _METADATA if hasattr(own, key)}

    def agrees(self, deterministic: Any) -> None:
        """Raise unless a function says the same about itself as its declaration."""
        if not isinstance(deterministic, bool):
            raise TypeError(f"deterministic must be a bool, but got {deterministic!r}.")
        if not isinstance(self.function, UserDefinedFunction):
            return
        own = self.function.is_deterministic()
        if own != deterministic:
            raise ValueError(f"Inconsistent deterministic: {deterministic} and {own}. Pass deterministic={own}.")

    def hint(self, name: str) -> Any:
        """Return an annotation, resolved alone: another one that cannot be is no matter."""
        found = getattr(_inner(self.called), "__annotations__", {})
        if name not in found:
            return _UNKNOWN
        holder = types.SimpleNamespace(__annotations__={name: found[name]})
        plain = inspect.unwrap(_inner(self.called))
        owner = self._owner(plain)
        local = {} if owner is None else {**vars(owner), owner.__name__: owner}
        try:
            return typing.get_type_hints(holder, getattr(plain, "__globals__", {}), local).get(name, _UNKNOWN)
        except (NameError, AttributeError, SyntaxError, TypeError):
            return _UNKNOWN

    def _owner(self, plain: Any) -> type | None:
        """Return the class whose body defines the callable, for names of that body."""
        outer = getattr(plain, "__qualname__", "").rpartition(".")[0]
        bound = getattr(_inner(self.called), "__self__", None)
        own = (
            self.function if inspect.isclass(self.function) else type(_inner(self.function) if bound is None else bound)
        )
        return next((kind for kind in own.__mro__ if outer and kind.__qualname__ == outer), None)

    def columnar(self) -> str:
        """Return how the function is called, by its annotations: ``general``, ``pandas`` or ``arrow``."""
        bound = _bound_names(self.function)
        for name in getattr(_inner(self.called), "__annotations__", {}):
            hint = _UNKNOWN if name in bound else self.hint(name)
            library = getattr(hint, "__module__", "").split(".")[0] if isinstance(hint, type) else ""
            if library in ("pandas", "pyarrow"):
                return "pandas" if library == "pandas" else "arrow"
        return "general"

    def result(self, given: Any) -> LogicalType:
        """Return the type of the result: the one that is given, or that of the annotation."""
        if given is not None:
            return declared_type(given)
        return self._inferred(self._return_hint())

    def _return_hint(self) -> Any:
        hint = self.hint("return")
        if "return" not in getattr(_inner(self.called), "__annotations__", {}):
            raise TypeError(
                f"Cannot infer return_dtype for {self.name!r}: add a return annotation or specify return_dtype explicitly."
            )
        if hint is _UNKNOWN:
            raise self._unclear()
        return hint

    def _unclear(self) -> TypeError:
        return TypeError(
            f"Cannot infer return_dtype for {self.name!r} from its return annotation.\nSpecify return_dtype explicitly."
        )

    def _inferred(self, hint: Any) -> LogicalType:
        try:
            found = type_of_hint(hint)
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            raise self._unclear() from error
        if found is None:
            raise self._unclear()
        return found

    def emitted(self, given: Any) -> tuple[LogicalType, bool]:
        """Return the type of the rows that the function emits, and True if their fields have names."""
        if given is None:
            type_, is_named = self._emitted(self._return_hint())
        else:
            type_, is_named = declared_type(given), True
        if isinstance(type_, RowType) and not type_.fields:
            raise ValueError(f"function {self.name!r} must declare at least one output field.")
        return type_, is_named and isinstance(type_, RowType)

    def _emitted(self, hint: Any) -> tuple[LogicalType, bool]:
        args = typing.get_args(hint)
        if typing.get_origin(hint) in _EMITS and args:
            hint = args[0]
        elif typing.get_origin(hint) in _EMITS or hint in _EMITS:
            raise TypeError(
                f"Cannot infer UDTF return type of {self.name!r}; specify return_dtype explicitly, or the type of an item: "
                "Iterator[str], say."
            )
        parts = typing.get_args(hint)
        if typing.get_origin(hint) is tuple or hint is tuple:
            if not parts or Ellipsis in parts:
                raise TypeError(f"UDTF tuple outputs must have a fixed number of fields, but {self.name!r} has {hint}.")
            fields = [type_of_hint(part) for part in parts]
            return RowType.of(*((f"f{place}", one or DataTypes.STRING()) for place, one in enumerate(fields))), False
        return self._inferred(hint), True

    def takes_a_record(self) -> None:
        """Raise unless the function can be called with a dict alone."""
        try:
            signature = inspect.signature(self.called)
        except (TypeError, ValueError):
            return
        parameters = list(signature.parameters.values())
        if inspect.isclass(self.function) and parameters and not _is_static(self.function, self.called):
            parameters = parameters[1:]
        try:
            signature.replace(parameters=parameters).bind({})
        except TypeError as error:
            raise ValueError(
                f"flat_map requires a function accepting one row argument: {self.name!r} {error}."
            ) from error
        hint = self.hint(parameters[0].name)
        if not _is_record(hint):
            raise ValueError(
                f"flat_map receives one dict row argument, got annotation {hint} in {self.name!r}. Take the values from the dict."
            )


def _is_record(hint: Any) -> bool:
    if hint in (_UNKNOWN, Any, object) or typing.is_typeddict(hint):
        return True
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_record(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType):
        return any(map(_is_record, typing.get_args(hint)))
    target = origin or hint
    return not isinstance(target, type) or issubclass(dict, target)


def _is_static(kind: type, called: Any) -> bool:
    found = next((vars(each)["__call__"] for each in kind.__mro__ if "__call__" in vars(each)), None)
    return isinstance(found, staticmethod) or inspect.ismethod(called)


def declared_type(given: Any) -> LogicalType:
    """Return a type that a declaration names: a ``DataType``, a type of Python, or SQL."""
    try:
        return DataType.of(given).logical_type
    except (FunkenError, TypeError, NameError, SyntaxError) as error:
        if isinstance(given, str):
            raise
        raise TypeError(
            f"return_dtype must be a DataFrame DataType, Python type, or SQL type string, got {type(given).__name__}: {given!r} "
            "has no type. Use a concrete DataType or SQL."
        ) from error


def own_type(function: AggregateFunction, method: str) -> Any:
    """Return the type that an aggregate function declares by a method; ``None`` if it does not."""
    if getattr(type(function), method) is getattr(AggregateFunction, method):
        return None
    found = engine_type(getattr(function, method)())
    if not isinstance(found, str | LogicalType):
        raise TypeError(f"{method}() must return a Table DataType or SQL type string, but returned {found!r}.")
    return found


def _inner(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Any) -> str:
    """Return the name of a function, object or class."""
    inner = _inner(function)
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) else type(inner).__name__


def _bound_names(function: Any) -> set[str]:
    """Return the parameters that a ``partial`` has values for."""
    if not isinstance(function, functools.partial):
        return set()
    try:
        signature = inspect.signature(function.func)
    except (TypeError, ValueError):
        return set()
    try:
        return set(signature.bind_partial(*function.args, **function.keywords).arguments)
    except TypeError as error:
        raise TypeError(f"Invalid functools.partial UDF {name_of(function)!r}: {error}.") from error


def _created_without_arguments(kind: type) -> None:
    if inspect.isabstract(kind):
        raise TypeError(f"UDF class {kind.__name__!r} must not be abstract.")
    try:
        inspect.signature(kind).bind()
    except TypeError as error:
        raise TypeError(
            f"UDF class {kind.__name__!r} must have a zero-argument constructor; pass a configured instance instead."
        ) from error
    except ValueError:  # a class of C, whose parameters are not known
        return


def _method(kind: type, name: str) -> Any:
    """Return a method of a class as it is called, without creating an object."""
    found = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), _UNKNOWN)
    if found is _UNKNOWN:
        raise TypeError(f"func must be callable, got {kind.__name__}, which has no {name}.")
    plain = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    if not inspect.isroutine(plain):
        raise TypeError(
            f"{'Scalar UDF' if name == 'eval' else 'Callable'} class {kind.__name__!r} has an unsupported {name} definition.\n"
            f"Define {name} as an instance, class, or static method."
        )
    return getattr(kind, name) if isinstance(found, classmethod) else plain


def record_source(function: Any) -> DeclaredFunction:
    """Return a function of the program that is no function class: a function, an object or a class with ``__call__``."""
    if isinstance(function, UserDefinedFunction) or _is_class_of(function, UserDefinedFunction):
        raise TypeError(
            f"map and flat_map accept Python callables or a declaration, but got {name_of(function)}. Declare it with udf() or "
            "udtf()."
        )
    return _source(function)


def _is_class_of(function: Any, *kinds: type) -> bool:
    return inspect.isclass(function) and issubclass(function, kinds)


def _source(function: Any) -> DeclaredFunction:
    if inspect.isclass(function):
        called = _method(function, "__call__")
        _created_without_arguments(function)
    elif not callable(function):
        raise TypeError(
            f"func must be callable, got {type(function).__name__}: pass a function, an object or class with __call__, or a "
            "function class."
        )
    else:
        is_plain = inspect.isroutine(_inner(function)) or inspect.isclass(_inner(function))
        called = function if is_plain else _inner(function).__call__
    _bound_names(function)
    return DeclaredFunction(function, called)


def scalar_source(function: Any) -> DeclaredFunction:
    """Return the function of a scalar declaration."""
    kinds = (ScalarFunction, AsyncScalarFunction)
    if _is_class_of(function, UserDefinedFunction) or isinstance(function, UserDefinedFunction):
        if not (_is_class_of(function, *kinds) or isinstance(function, kinds)):
            raise TypeError(f"func must be a scalar UDF, got {name_of(function)}.")
        called = _method(function, "eval") if inspect.isclass(function) else function.eval
        if inspect.isclass(function):
            _created_without_arguments(function)
        found = DeclaredFunction(function, called)
        waits = _is_class_of(function, AsyncScalarFunction) or isinstance(function, AsyncScalarFunction)
        if waits and not found.is_async:
            raise TypeError(f"AsyncScalarFunction {found.name!r}: eval must be defined with async def.")
    else:
        found = _source(function)
    if not found.is_async and inspect.iscoroutinefunction(inspect.unwrap(_inner(found.called))):
        raise TypeError("A synchronous UDF wrapper cannot wrap an async target; define the wrapper with async def.")
    return found


def table_source(function: Any) -> DeclaredFunction:
    """Return the function of a table declaration; a function class is created here, another class in the task."""
    if _is_class_of(function, TableFunction):
        _created_without_arguments(function)
        function = function()
    if isinstance(function, TableFunction):
        found = DeclaredFunction(function, function.eval)
    elif isinstance(function, UserDefinedFunction) or _is_class_of(function, UserDefinedFunction):
        raise TypeError(f"func must be a table UDF or a Python callable, got {name_of(function)}.")
    else:
        found = _source(function)
    _is_synchronous(found.called, "DataFrame UDTFs must be synchronous; async functions are not supported")
    return found


def aggregate_source(function: Any, func_type: str) -> DeclaredFunction:
    """Return the function of an aggregate declaration; a function class is created here, another class in the task."""
    says = "UDAFs must be synchronous; async functions are not supported"
    if _is_class_of(function, AggregateFunction):
        _created_without_arguments(function)
        function = function()
    if isinstance(function, AggregateFunction):
        for method in ("create_accumulator", "accumulate", "get_value", "retract", "merge", "open", "close"):
            _is_synchronous(getattr(function, method), says)
        return DeclaredFunction(function, function.get_value)
    if func_type == "general":
        raise TypeError(
            f"General UDAFs require an AggregateFunction instance or class, but got {function!r}. Derive a class from it, or "
            "pass func_type='pandas'."
        )
    if isinstance(function, UserDefinedFunction) or _is_class_of(function, UserDefinedFunction):
        raise TypeError(f"Pandas UDAFs require an AggregateFunction or a Python callable, got {name_of(function)}.")
    found = _source(function)
    _is_synchronous(found.called, says)
    return found


def _is_synchronous(called: Any, says: str) -> None:
    for one in (called, inspect.unwrap(_inner(called))):
        if inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one):
            raise TypeError(f"{says}: make {name_of(called)!r} a def.")
