"""Side outputs that nobody writes: read from the functions of an operator before the job runs.

A function writes to the tags that it can reach: by its globals, variables around it, defaults, attributes of its object, and
the functions it calls. Where it makes a tag in a way that cannot be read, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from funken.columnar.bytecode import constants_behind
from funken.errors import InvalidProgram
from funken.operators.base import OutputTag
from funken.operators.user_functions import traits_of
from funken.plan.nodes import Node, NodeInput, StreamGraph
from funken.types.callables import codes_in, outer_values
from funken.types.info import declared

_OBJECTS = 1000
"""A function that reaches more objects is not followed."""
_OPAQUE = {"getattr", "eval", "exec", "globals", "locals", "vars", "import_module", "__import__"}


class _Unknown(Exception):
    """The tags of a function cannot be read."""


def check_sides(graph: StreamGraph) -> None:
    """Raise ``InvalidProgram`` for a side output that is read, but that its operator cannot write."""
    known: dict[int, dict[str, OutputTag[Any]] | None] = {}
    for node in graph:
        for given in node.inputs:
            if given.side is None:
                continue
            source = graph[given.upstream]
            if source.id not in known:
                try:
                    known[source.id] = written(source)
                except Exception:  # noqa: BLE001 - the program's objects may raise when they are looked at
                    known[source.id] = None
            tags = known[source.id]
            if tags is not None:
                _check(source, given, tags)


def _check(source: Node, given: NodeInput, tags: dict[str, OutputTag[Any]]) -> None:
    side, place = str(given.side), f" ({given.place})" if given.place else ""
    where = f"operator {source.name!r} has no side output {side!r}"
    if side in tags:
        writes, reads = declared_type(tags[side]), dict(source.side_types).get(side)
        if writes is not None and reads is not None and writes != reads:
            raise InvalidProgram(
                f"operator {source.name!r} writes {writes} to its side output {side!r}, but it is read as {reads}{place}. Use "
                "one OutputTag for both."
            )
        return
    if traits_of(source.spec).fusable:
        raise InvalidProgram(
            f"{where}, which is read{place}: its function returns records only. Use process() and yield (output_tag, record), or "
            "on_error(output_tag) for the records at which it fails."
        )
    if not tags:
        raise InvalidProgram(
            f"{where}, which is read{place}: its function writes to none. Yield (output_tag, record) in the function; late "
            "records of windows go to the tag of side_output_late_data()."
        )
    near = get_close_matches(side, tags, 1, 0.5)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise InvalidProgram(
        f"{where}, which is read{place}: its function writes to {', '.join(map(repr, sorted(tags)))}.{meant} Use one OutputTag "
        "for both."
    )


def declared_type(tag: OutputTag[Any]) -> Any:
    """Return the declared type of a tag, if it has one that converts records."""
    return None if isinstance(tag.type_info, type) else declared(tag.type_info)


def written(node: Node) -> dict[str, OutputTag[Any]] | None:
    """Return the tags that an operator may write to, by their ids; ``None`` if that is not known.

    >>> from funken import OutputTag
    >>> from funken.testing import local
    >>> late, kinds = OutputTag("late"), {"odd": OutputTag("odd"), "even": OutputTag("even")}
    >>> def split(n, ctx):
    ...     yield kinds["odd" if n % 2 else "even"], n
    ...     yield OutputTag("all"), n
    >>> split.__module__ = "program"
    >>> sorted(written(local([1]).process(split)._node("")))
    ['all', 'even', 'odd']
    """
    traits = traits_of(node.spec)
    if traits.side_functions is None:
        return None
    found: dict[str, OutputTag[Any]] = {}
    failed = None if node.on_error is None else node.on_error.side_output
    for tag in (traits.late_tag, failed):
        if tag is not None:
            found[tag] = OutputTag(tag)
    try:
        for function in traits.side_functions:
            if _module(function.target).startswith("funken."):
                return None
            found |= {tag.tag_id: tag for tag in _reachable(function.target)}
    except _Unknown:
        return None
    return found


def _module(target: Any) -> str:
    found = target if isinstance(target, FunctionType) else type(target)
    return str(found.__module__)


def _reachable(start: Any) -> Iterable[OutputTag[Any]]:
    """Yield the tags that can be reached from a function or an object."""
    left, seen = [start], dict[int, Any]()
    while left:
        found = left.pop()
        if id(found) in seen:
            continue
        seen[id(found)] = found
        if len(seen) > _OBJECTS:
            raise _Unknown
        if isinstance(found, OutputTag):
            yield found
        elif isinstance(found, FunctionType):
            yield from _made(found.__code__)
            left += _used(found)
        else:
            left += _parts(found)


def _parts(found: Any) -> list[Any]:
    """Return the parts of an object, as far as tags may be in it."""
    if isinstance(found, MethodType):
        return [found.__func__, found.__self__]
    if isinstance(found, partial):
        return [found.func, *found.args, *found.keywords.values()]
    if isinstance(found, property | staticmethod | classmethod):
        return [getattr(found, "fget", None) or getattr(found, "__func__", None)]
    if isinstance(found, dict):
        return [*found.values(), *found] if len(found) < _OBJECTS else []
    if isinstance(found, list | tuple | set | frozenset):
        return [*found] if len(found) < _OBJECTS else []
    kind = found if isinstance(found, type) else type(found)
    if kind.__module__.partition(".")[0] in ("builtins", "funken") or isinstance(found, ModuleType):
        return []
    own = [] if kind is found else [*getattr(found, "__dict__", {}).values()]
    theirs = [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in ("builtins", "funken")]
    return [*own, *(value for each in theirs for value in vars(each).values())]


def _used(function: FunctionType) -> list[Any]:
    """Return the outer objects that a function uses."""
    codes = list(codes_in(function.__code__))
    names = {name for code in codes for name in code.co_names}
    if names & _OPAQUE:
        raise _Unknown
    around = [value for _, value in outer_values(function, codes)]
    of_modules = [
        getattr(module, name, None) for module in around if isinstance(module, ModuleType) and module.__name__ != "builtins"
        for name in names if name in vars(module)
    ]  # fmt: skip
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [*around, *of_modules, *defaults]


def _made(code: CodeType) -> Iterable[OutputTag[Any]]:
    """Yield the tags that a function makes of constants."""
    for each in codes_in(code):
        found = constants_behind(each, "OutputTag")
        if found is None or not all(isinstance(name, str) for name in found):
            raise _Unknown
        yield from map(OutputTag, found)
