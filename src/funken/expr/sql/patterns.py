"""Regular expressions of Java: as Python's ``re``, and on whole columns as Arrow's, where both find the same.

Arrow's are RE2: it goes through a text once. An expression without assertions, references and repeated empty parts has the
same first match in both. Its text for RE2 is written from the parsed expression, so that no escape means something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from funken.expr.ir import Call, Literal
from funken.expr.rules import EvaluationError
from funken.expr.sql.calls import bound
from funken.expr.sql.saying import say_once
from funken.expr.sql.values import is_scalar

_CLASSES = {
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Upper": "A-Z",
    "Lower": "a-z",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r" \t\n\x0b\f\r",
    "Blank": r" \t",
    "XDigit": "0-9a-fA-F",
    "ASCII": r"\x00-\x7f",
    "Cntrl": r"\x00-\x1f\x7f",
    "Graph": r"!-~",
    "Print": r" -~",
    "IsAlphabetic": r"^\W\d_",
    "IsDigit": r"\d",
    "IsPunctuation": r"!-/:-@\[-`{-~",
    "IsHan": "\u4e00-\u9fff",
    "IsLatin": "a-zA-Z\u00c0-\u024f",
    "L": r"^\W\d_",
    "N": r"\d",
    "Lu": "A-Z\u00c0-\u00de",
    "Ll": "a-z\u00df-\u00ff",
}
_CLASSES["IsUppercase"], _CLASSES["IsLowercase"] = _CLASSES["Lu"], _CLASSES["Ll"]


def _escape(pattern: str, at: int, in_class: bool) -> tuple[str, int]:
    """Return the Python text of an escape of Java, and the place behind it."""
    following = pattern[at + 1 : at + 2]
    if following in {"p", "P"}:
        match = re.compile(r"\{(\w+)\}|(\w)").match(pattern, at + 2)
        name = (match.group(1) or match.group(2)) if match else ""
        if match is None or name not in _CLASSES:
            raise re.error(f"the class \\{following}{{{name}}} is unknown")
        body, negative = _CLASSES[name], following == "P"
        if body.startswith("^"):
            body, negative = body[1:], not negative
        if in_class and not negative:
            return body, match.end()
        return f"[{'^' if negative else ''}{body}]", match.end()
    if following == "h":
        return (r" \t\u00a0" if in_class else r"[ \t\u00a0]"), at + 2
    if following == "R":
        return r"(?:\r\n|[\n\x0b\f\r\u0085\u2028\u2029])", at + 2
    if following == "z":
        return r"\Z", at + 2
    if following == "Z":
        return r"(?=\n?\Z)", at + 2
    if following == "k":
        end = pattern.index(">", at)
        return f"(?P={pattern[at + 3 : end]})", end + 1
    if following == "e":
        return r"\x1b", at + 2
    return pattern[at : at + 2], at + 2


def python_pattern(pattern: str) -> str:
    """Return the pattern of ``re`` that matches as a pattern of Java does.

    >>> python_pattern("(?<year>[0-9]+)[p{Alpha}]")
    '(?P<year>[0-9]+)[p{Alpha}]'
    """
    found: list[str] = []
    at = depth = 0
    while at < len(pattern):
        mark = pattern[at]
        if pattern.startswith(r"\Q", at):
            end = pattern.find(r"\E", at)
            end = len(pattern) if end < 0 else end
            found.append(re.escape(pattern[at + 2 : end]))
            at = end + 2
            continue
        if mark == "\\":
            text, at = _escape(pattern, at, depth > 0)
            found.append(text)
            continue
        if mark == "[":  # a class within a class is a part of it
            found.append("" if depth else "[")
            depth += 1
        elif mark == "]" and depth:
            depth -= 1
            found.append("" if depth else "]")
        elif pattern.startswith("(?<", at) and pattern[at + 3 : at + 4] not in {"=", "!"}:
            found.append("(?P<")
            at += 3
            continue
        else:
            found.append(mark)
        at += 1
    return "".join(found)


@lru_cache(maxsize=512)
def regular_expression(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern of Java; a wrong one raises ``EvaluationError``."""
    try:
        return re.compile(python_pattern(pattern), re.ASCII if pattern.isascii() else 0)
    except (re.error, ValueError, OverflowError) as error:
        raise EvaluationError(f"the regular expression '{pattern}' is wrong: {error}") from None


def valid_expression(pattern: str) -> re.Pattern[str] | None:
    """Return a compiled pattern, ``None`` if it is wrong."""
    try:
        return regular_expression(pattern)
    except EvaluationError as error:
        say_once("pattern", pattern, f"{error}, so the function gives NULL or FALSE. Correct it.")
        return None


# ---- Expressions as RE2 takes them.


_MOST_REPEATS = 1000
"""RE2 counts no further."""
_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
    codes.CATEGORY_SPACE: r"\x{9}-\x{d}\x{20}",
}
"""Those of ASCII."""
_PLACES = {
    codes.AT_BEGINNING: r"\A",
    codes.AT_BEGINNING_STRING: r"\A",
    codes.AT_END_STRING: r"\z",
    codes.AT_BOUNDARY: r"\b",
}
_FOUND = "found"


class _OtherMatches(Exception):
    """RE2 may find something else."""


@lru_cache(maxsize=512)
def linear_pattern(expression: re.Pattern[str], group: int = 0) -> str | None:
    r"""Return the text for RE2 of an expression, in which a group has the name ``found``; ``None``: there is none.

    The group is there in every match, and no match is empty.

    >>> linear_pattern(re.compile("(a|b)([^c]*)d", re.ASCII), 2)
    '(?:[\\x{61}\\x{62}])(?P<found>(?:[^\\x{63}])*)\\x{64}'
    >>> linear_pattern(re.compile("(?<=a)b", re.ASCII)), linear_pattern(re.compile("a?", re.ASCII))
    (None, None)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if expression.flags & ~re.UNICODE != re.ASCII:
        return None
    try:
        parsed = parser.parse(expression.pattern, expression.flags)
        if not parsed.getwidth()[0]:
            return None
        made = _sequence(parsed, group)
        made = made if group else f"(?P<{_FOUND}>{made})"
        if f"?P<{_FOUND}>" not in made:
            return None
        pc.extract_regex(pa.array([""]), made)
    except (_OtherMatches, re.error, RecursionError, pa.ArrowInvalid):
        return None
    return made


def _sequence(parsed: Iterable[Any], group: int) -> str:
    return "".join(_part(code, argument, group) for code, argument in parsed)


def _part(code: Any, argument: Any, group: int) -> str:
    """Return a part of an expression; ``group`` (0: none) is shown in parts that are in every match."""
    if code is codes.LITERAL:
        return _character(argument)
    if code is codes.NOT_LITERAL:
        return f"[^{_character(argument)}]"
    if code is codes.ANY:
        return f"[^{_character(10)}]"
    if code is codes.IN:
        return _class(argument)
    if code is codes.AT and argument in _PLACES:
        return _PLACES[argument]
    if code is codes.BRANCH:
        return f"(?:{'|'.join(_sequence(each, 0) for each in argument[1])})"
    if code is codes.SUBPATTERN:
        number, added, left_out, inner = argument
        if not added and not left_out:
            inner = _sequence(inner, group)
            return f"(?P<{_FOUND}>{inner})" if group and number == group else f"(?:{inner})"
    if code is codes.MAX_REPEAT or code is codes.MIN_REPEAT:
        least, most, inner = argument
        counted = least <= _MOST_REPEATS and (most is codes.MAXREPEAT or most <= _MOST_REPEATS)
        if counted and inner.getwidth()[0]:
            bounds = f"{{{least},{'' if most is codes.MAXREPEAT else most}}}"
            bounds = {"{0,}": "*", "{1,}": "+", "{0,1}": "?"}.get(bounds, bounds)
            return f"(?:{_sequence(inner, 0)}){bounds}{'?' if code is codes.MIN_REPEAT else ''}"
    raise _OtherMatches


def _class(items: Iterable[Any]) -> str:
    made, negated = "", ""
    for code, argument in items:
        if code is codes.NEGATE:
            negated = "^"
        elif code is codes.LITERAL:
            made += _character(argument)
        elif code is codes.RANGE:
            made += f"{_character(argument[0])}-{_character(argument[1])}"
        elif code is codes.CATEGORY and argument in _CATEGORIES:
            made += _CATEGORIES[argument]
        else:
            raise _OtherMatches
    return f"[{negated}{made}]"


def _character(number: int) -> str:
    return f"\\x{{{number:x}}}"


# ---- The functions: of one text, and of columns.


def _of_expression(compute: Callable[..., Any], of_column: Callable[..., Any] | None = None, wrong: Any = None) -> Any:
    """Return the kernel of a function of a text, an expression and more; ``wrong``: its result if the expression is wrong.

    ``of_column`` computes a column by a constant expression and constants; ``None``: it cannot.
    """

    def of(expression: re.Pattern[str] | None, text: str, *more: Any) -> Any:
        return wrong if expression is None else compute(expression, text, *more)

    def made(call: Call, evaluator: Any) -> Callable[..., Any]:
        pattern = call.args[1].value if isinstance(call.args[1], Literal) else None
        if pattern is None:
            return lambda text, pattern, *more: of(valid_expression(pattern), text, *more)
        expression = valid_expression(pattern)
        return lambda text, _, *more: of(expression, text, *more)

    per_text = bound(made)

    def kernel(call: Call, arguments: list[Any], evaluator: Any) -> Any:
        constants = [each.value for each in call.args[1:] if isinstance(each, Literal) and each.value is not None]
        if of_column is not None and len(constants) == len(call.args) - 1 and not is_scalar(arguments[0]):
            expression = valid_expression(constants[0])
            found = None if expression is None else of_column(arguments[0], expression, *constants[1:])
            if found is not None:
                return found
        return per_text(call, arguments, evaluator)

    kernel.by_value = True  # type: ignore[attr-defined]
    return kernel


def _regexp_extract(expression: re.Pattern[str], text: str, group: int = 0) -> str | None:
    match = expression.search(text) if 0 <= group <= expression.groups else None
    return match.group(group) if match else None


def _extracted(texts: Any, expression: re.Pattern[str], group: int = 0) -> Any:
    import pyarrow.compute as pc

    pattern = linear_pattern(expression, group)
    return None if pattern is None else pc.struct_field(pc.extract_regex(texts, pattern), [0])


def _regexp_extract_all(expression: re.Pattern[str], text: str, group: int = 1) -> list[Any] | None:
    if not 0 <= group <= expression.groups:
        return None
    return [match.group(group) for match in expression.finditer(text)]


def _regexp_count(expression: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in expression.finditer(text))


def _counted(texts: Any, expression: re.Pattern[str]) -> Any:
    import pyarrow.compute as pc

    pattern = linear_pattern(expression)
    return None if pattern is None else pc.count_substring_regex(texts, pattern)


def _regexp_instr(expression: re.Pattern[str], text: str) -> int:
    match = expression.search(text)
    return match.start() + 1 if match else 0


def _regexp_substr(expression: re.Pattern[str], text: str) -> str | None:
    match = expression.search(text)
    return match.group() if match else None


def _regexp_replace(expression: re.Pattern[str], text: str, replacement: str) -> str:
    return expression.sub(lambda _: replacement, text)


def _replaced(texts: Any, expression: re.Pattern[str], replacement: str) -> Any:
    import pyarrow.compute as pc

    pattern = linear_pattern(expression)
    if pattern is None:
        return None
    return pc.replace_substring_regex(texts, pattern, replacement.replace("\\", r"\\"))


def _regexp(expression: re.Pattern[str], text: str) -> bool:
    return bool(expression.pattern) and expression.search(text) is not None


def _matched(texts: Any, expression: re.Pattern[str]) -> Any:
    import pyarrow.compute as pc

    pattern = linear_pattern(expression)
    return None if pattern is None else pc.match_substring_regex(texts, pattern)


REGEXP = _of_expression(_regexp, _matched, wrong=False)
REGEXP_EXTRACT = _of_expression(_regexp_extract, _extracted)
REGEXP_EXTRACT_ALL = _of_expression(_regexp_extract_all)
REGEXP_REPLACE = _of_expression(_regexp_replace, _replaced)
REGEXP_COUNT = _of_expression(_regexp_count, _counted)
REGEXP_INSTR = _of_expression(_regexp_instr)
REGEXP_SUBSTR = _of_expression(_regexp_substr, _extracted)
