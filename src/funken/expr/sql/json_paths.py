"""Paths into JSON documents: ``lax $.a[*].b``, ``$['a'][0]``, ``$..a``, ``$.a[?(@.b > 1)]``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from funken.dataclass import dataclass
from funken.expr.rules import EvaluationError
from funken.expr.sql.texts import double_text


class MissingPath(EvaluationError):
    """A document has nothing at a path."""


class JsonFloat(float):
    """A number of a document that is no integer."""


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def read_json(text: str) -> Any:
    """Return a document; a text that is none raises ``ValueError``."""
    return json.loads(text, parse_constant=_constant, parse_float=JsonFloat)


def write_json(value: Any) -> str:
    """Return a document as text, compact and with its keys in order."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(key)}:{write_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(write_json, value)) + "]"
    if isinstance(value, str):
        return json_text(value)
    return scalar_text(value)


def json_text(text: str) -> str:
    """Return a text as JSON."""
    return json.dumps(text, ensure_ascii=False)


def scalar_text(value: Any) -> str:
    """Return the text of a scalar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    return str(value)


Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True)
class JsonPath:
    """A path: its steps, whether it is lax, and whether it names one place at most."""

    lax: bool
    steps: tuple[tuple[str, Any], ...]
    definite: bool

    def find(self, document: Any) -> Any:
        """Return what is at the path: a value, or a list if the path names many; nothing raises ``MissingPath``."""
        found = [document]
        for kind, detail in self.steps:
            found = [each for value in found for each in _step(kind, detail, value)]
        if not self.definite:
            return found
        if not found:
            raise MissingPath("No results for path: the document has nothing at it")
        return found[0]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for child in _children(value):
        yield from _descend(child)


def _step(kind: str, detail: Any, value: Any) -> Iterator[Any]:
    if kind == "name":
        if isinstance(value, dict) and detail in value:
            yield value[detail]
    elif kind == "names":
        if isinstance(value, dict):
            yield from (value[name] for name in detail if name in value)
    elif kind == "index":
        if isinstance(value, list):
            yield from (value[at] for at in detail if -len(value) <= at < len(value))
    elif kind == "slice":
        if isinstance(value, list):
            yield from value[detail]
    elif kind == "all":
        yield from _children(value)
    elif kind == "deep":
        for each in _descend(value):
            yield from _step(detail[0], detail[1], each)
    elif kind == "filter":
        yield from (each for each in (value if isinstance(value, list) else [value]) if detail(each))


_NAME = re.compile(r"[^.\[\]\s()]+")
_QUOTED = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*""")
_COMPARISON = re.compile(r"^\s*@((?:\.[\w-]+|\[[^\]]*\])*)\s*(?:(==|!=|<=|>=|<|>|=~)\s*(.+?))?\s*$", re.DOTALL)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self) -> EvaluationError:
        return EvaluationError(
            f"Illegal jsonpath spec '{self.text}', format of the spec should be: '<lax|strict> ${{expr}}'"
        )

    def steps(self) -> Iterator[tuple[str, Any]]:
        while self.at < len(self.text):
            if self.text.startswith("..", self.at):
                self.at += 2
                following = self._bracket() if self.text[self.at : self.at + 1] == "[" else self._named()
                yield "deep", following
            elif self.text[self.at] == ".":
                self.at += 1
                yield self._named()
            elif self.text[self.at] == "[":
                yield self._bracket()
            else:
                raise self.fail()

    def _named(self) -> tuple[str, Any]:
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.fail()
        self.at = match.end()
        return ("all", None) if match.group() == "*" else ("name", match.group())

    def _bracket(self) -> tuple[str, Any]:
        start = self.at + 1
        if self.text[start:].lstrip().startswith("?"):
            end = self.text.find(")]", start)
            if end < 0:
                raise self.fail()
            self.at = end + 2
            return "filter", _filter(self.text[start:end].strip()[1:].strip()[1:])
        names: list[str] = []
        place = start
        while (match := _QUOTED.match(self.text, place)) is not None:
            names.append(re.sub(r"\\(.)", r"\1", match.group(1) if match.group(1) is not None else match.group(2)))
            place = match.end()
            if self.text[place : place + 1] != ",":
                break
            place += 1
        if names:
            if self.text[place : place + 1] != "]":
                raise self.fail()
            self.at = place + 1
            return ("name", names[0]) if len(names) == 1 else ("names", tuple(names))
        end = self.text.find("]", start)
        if end < 0:
            raise self.fail()
        self.at = end + 1
        return self._places(self.text[start:end].strip())

    def _places(self, body: str) -> tuple[str, Any]:
        if body == "*":
            return "all", None
        try:
            if ":" in body:
                return "slice", slice(*(int(each) if each.strip() else None for each in body.split(":")))
            return "index", tuple(int(each) for each in body.split(","))
        except ValueError:
            raise self.fail() from None


def _filter(text: str) -> Callable[[Any], bool]:
    """Return the condition of ``@.a > 1 && @.b``."""
    if "||" in text:
        parts = [_filter(part) for part in text.split("||")]
        return lambda value: any(part(value) for part in parts)
    if "&&" in text:
        parts = [_filter(part) for part in text.split("&&")]
        return lambda value: all(part(value) for part in parts)
    match = _COMPARISON.match(text)
    if match is None:
        raise EvaluationError(f"Illegal jsonpath spec: the filter '{text}' is not understood")
    path = JsonPath(True, tuple(_Reader(match.group(1)).steps()), True)
    operator, literal = match.group(2), match.group(3)
    if operator is None:
        return lambda value: _reached(path, value)[0]
    wanted = read_json(literal.replace("'", '"')) if operator != "=~" else literal
    return lambda value: _compared(operator, *_reached(path, value), wanted)


def _reached(path: JsonPath, value: Any) -> tuple[bool, Any]:
    try:
        return True, path.find(value)
    except MissingPath:
        return False, None


def _compared(operator: str, there: bool, value: Any, wanted: Any) -> bool:
    if not there:
        return operator == "!="
    if operator == "==":
        return bool(value == wanted)
    if operator == "!=":
        return bool(value != wanted)
    if operator == "=~":
        return isinstance(value, str) and re.fullmatch(wanted.strip("/"), value) is not None
    try:
        return bool({"<": value < wanted, "<=": value <= wanted, ">": value > wanted, ">=": value >= wanted}[operator])
    except TypeError:
        return False


@lru_cache(maxsize=512)
def json_path(text: str) -> JsonPath:
    """Return a path; without ``lax`` it is strict.

    >>> json_path("lax $.a[*].b").find({"a": [{"b": 1}, {"b": 2}]})
    [1, 2]
    """
    match = re.fullmatch(r"\s*(?:(strict|lax)\s+)?\$(.*)", text, re.DOTALL | re.IGNORECASE)
    if match is None:
        raise EvaluationError(f"Illegal jsonpath spec '{text}', format of the spec should be: '<lax|strict> ${{expr}}'")
    reader = _Reader(match.group(2).strip())
    steps = tuple(reader.steps())
    many = any(
        kind in {"all", "names", "slice", "deep", "filter"} or (kind == "index" and len(detail) > 1)
        for kind, detail in steps
    )
    return JsonPath((match.group(1) or "").lower() == "lax", steps, not many)
