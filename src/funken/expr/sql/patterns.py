"""Regular expressions of Java, patterns of LIKE and SIMILAR TO, as Python's ``re``."""

from __future__ import annotations

import re
from functools import lru_cache

from funken.expr.rules import EvaluationError, InvalidCall

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
        if mark == "[":
            found.append(r"\[" if depth else "[")
            depth += not depth
        elif mark == "]" and depth:
            found.append("]")
            depth = 0
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
    except EvaluationError:
        return None


def _escape_of(escape: str | None) -> str | None:
    if escape is not None and len(escape) != 1:
        raise InvalidCall(f"Invalid escape character '{escape}'")
    return escape


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """Return the regular expression of a pattern of LIKE.

    >>> bool(like_pattern("a%_").fullmatch("abc")), bool(like_pattern("a#%", "#").fullmatch("abc"))
    (True, False)
    """
    escape = _escape_of(escape)
    found: list[str] = []
    at = 0
    while at < len(pattern):
        mark = pattern[at]
        if escape is not None and mark == escape:
            following = pattern[at + 1 : at + 2]
            if following not in {"%", "_", escape} or not following:
                raise EvaluationError(f"Invalid escape sequence '{pattern}', {at}")
            found.append(re.escape(following))
            at += 2
            continue
        found.append({"%": ".*", "_": "."}.get(mark) or re.escape(mark))
        at += 1
    return re.compile("".join(found), re.DOTALL)


_SIMILAR_SPECIAL = set("[]()|^-+*_%?{}")
_SIMILAR_CLASSES = {
    "[:ALPHA:]": "a-zA-Z",
    "[:UPPER:]": "A-Z",
    "[:LOWER:]": "a-z",
    "[:DIGIT:]": "0-9",
    "[:SPACE:]": " ",
    "[:WHITESPACE:]": r"\s",
    "[:ALNUM:]": "a-zA-Z0-9",
}


@lru_cache(maxsize=512)
def similar_pattern(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """Return the regular expression of a pattern of SIMILAR TO."""
    escape = _escape_of(escape)
    found: list[str] = []
    at, inside = 0, False
    while at < len(pattern):
        mark = pattern[at]
        if escape is not None and mark == escape:
            following = pattern[at + 1 : at + 2]
            if not following or (following not in _SIMILAR_SPECIAL and following != escape):
                raise EvaluationError(f"Invalid escape sequence '{pattern}', {at}")
            found.append(re.escape(following))
            at += 2
            continue
        named = next((name for name in _SIMILAR_CLASSES if pattern[at:].upper().startswith(name)), None)
        if named:
            body = _SIMILAR_CLASSES[named]
            found.append(body if inside else f"[{body}]")
            at += len(named)
            continue
        inside = (inside or mark == "[") and mark != "]"
        if mark in "[](){}|+*?." or (inside and mark in "^-"):
            found.append(mark)
        else:
            found.append({"%": ".*", "_": "."}.get(mark) or re.escape(mark))
        at += 1
    try:
        return re.compile("".join(found), re.DOTALL)
    except re.error as error:
        raise EvaluationError(f"Invalid regular expression '{pattern}': {error}") from None
