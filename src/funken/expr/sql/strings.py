"""Functions of texts: parts, searches, patterns of LIKE, and the encodings of texts as bytes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from funken.expr.ir import Call, Literal, Node
from funken.expr.rules import EvaluationError, FunctionRule, InvalidCall, Nulls
from funken.expr.sql import patterns
from funken.expr.sql.calls import bound, constant_of, function, nullable_of, of_columns, per_value
from funken.expr.sql.types import (
    MAX_LENGTH,
    STRING,
    BinaryType,
    CharType,
    LogicalType,
    NumericType,
    SizedType,
    VarBinaryType,
    VarCharType,
    common_type,
    is_bytes,
)
from funken.expr.sql.values import is_scalar

# ---- Patterns of LIKE and SIMILAR TO, as Python's ``re``.


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


_GROUP = "strings"
C = Nulls.CUSTOM


def _varying(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    type_ = args[0].type
    kind = VarBinaryType if is_bytes(type_) else VarCharType
    return kind(type_.length, is_nullable=nullable_of(args))


def _nullable_varying(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    return _varying(args, options).nullable()


def _joined(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    types: list[SizedType] = [each.type for each in args]
    length = min(sum(each.length for each in types), MAX_LENGTH)
    fixed = not any(each.varying for each in types)
    kind: type[SizedType]
    kind = {
        (True, True): BinaryType,
        (True, False): VarBinaryType,
        (False, True): CharType,
        (False, False): VarCharType,
    }[is_bytes(types[0]), fixed]
    return kind(length, is_nullable=nullable_of(args))


def _overlaid(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    length = min(args[0].type.length + args[1].type.length, MAX_LENGTH)
    return VarCharType(length, is_nullable=nullable_of(args))


# -- parts


def substring(text: Any, start: int, length: int | None = None) -> Any:
    """Return a part from a position that counts from 1, or from the end if it is negative; 0 is like 1.

    >>> substring("abc", 0), substring("abc", -2), substring("abc", 2, 1)
    ('abc', 'bc', 'b')
    """
    if length is not None and length < 0:
        return None
    size = len(text)
    begin = start - 1 if start > 0 else (size + start if start < 0 else 0)
    if begin < 0 or begin >= size:
        return text[:0]
    return text[begin:] if length is None else text[begin : begin + length]


def _left(text: str, count: int) -> str:
    return text[: max(count, 0)]


def _right(text: str, count: int) -> str:
    return text[-count:] if 0 < count < len(text) else (text if count > 0 else "")


def _overlay(text: str, other: str, start: int, length: int | None = None) -> str:
    if start <= 0 or start > len(text):
        return text
    count = len(other) if length is None else length
    head = text[: start - 1]
    if start - 1 + count > len(text) or count <= 0:
        return head + other
    return head + other + text[start - 1 + count :]


def _pad(text: str, length: int, pad: str, left: bool) -> str | None:
    if length < 0 or not pad:
        return None
    if len(text) >= length:
        return text[:length]
    missing = length - len(text)
    filling = (pad * (missing // len(pad) + 1))[:missing]
    return filling + text if left else text + filling


def _trim(call: Call, evaluator: Any) -> Callable[..., str]:
    where = call.option("where", {"LTRIM": "LEADING", "RTRIM": "TRAILING"}.get(call.function, "BOTH"))

    def trimmed(text: str, characters: str = " ") -> str:
        if where != "TRAILING":
            text = text.lstrip(characters) if characters else text
        return text.rstrip(characters) if where != "LEADING" and characters else text

    return trimmed


def _initcap(text: str) -> str:
    return re.sub("[A-Za-z0-9]+", lambda match: match.group()[0].upper() + match.group()[1:].lower(), text)


def _split_index(text: str, separator: Any, index: int) -> str | None:
    if isinstance(separator, int):
        if not 0 < separator <= 255:
            return None
        separator = chr(separator)
    if index < 0:
        return None
    parts = text.split(separator) if separator else re.split(r"\s", text)
    return parts[index] if index < len(parts) and text else None


def _split_indexes(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    """Return the part at one index of each text: separators are searched once, whichever parts are asked for."""
    import pyarrow as pa

    from funken.expr.sql.parts import SeparatedTexts

    texts, separator, index = arguments
    constant = is_scalar(separator) and is_scalar(index) and separator.is_valid and index.is_valid
    if not constant or is_scalar(texts) or not isinstance(separator.as_py(), str) or not separator.as_py():
        return _SPLIT_ONE(call, arguments, evaluator)
    mark = separator.as_py().encode()
    if any(mark.startswith(mark[-size:]) for size in range(1, len(mark))):
        return _SPLIT_ONE(call, arguments, evaluator)  # one may begin within another
    if index.as_py() < 0:
        return pa.nulls(len(texts), pa.string())
    name = ("SPLIT", call.args[0], mark)
    return evaluator.known(name, lambda: SeparatedTexts(texts, mark)).parts(index.as_py())


_SPLIT_ONE = per_value(_split_index)


def _split(text: str, separator: str) -> list[str]:
    return (text.split(separator) if separator else list(text)) if text else []


def _translate(text: str, old: str, new: str | None) -> str:
    table: dict[int, str] = {}
    for at, mark in enumerate(old):
        table.setdefault(ord(mark), (new or "")[at : at + 1])
    return text.translate(table)


def _elt(index: int | None, *values: Any) -> Any:
    return values[index - 1] if index is not None and 1 <= index <= len(values) else None


def _elt_index(args: Sequence[Node], options: Mapping[str, Any]) -> str | None:
    index = constant_of(args[0])
    if index is None or index >= 0:
        return None
    return f"Index must be an integer starting from '0', but was '{index}'."


def _elt_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    found = common_type([each.type for each in args[1:]])
    assert found is not None
    return found.nullable()


def _concat_ws(separator: str | None, *parts: str | None) -> str | None:
    return None if separator is None else separator.join(part for part in parts if part is not None)


# -- searches


def _instr(text: str, part: str, start: int = 1, occurrence: int = 1) -> int:
    """Return the position of an occurrence, from 1; a negative start searches from the end."""
    if occurrence < 1:
        raise EvaluationError(f"INSTR counts occurrences from 1, but got number {occurrence}")
    if start == 0:
        return 0
    if not part:
        return 1 if start > 0 else len(text) + 1
    if start > 0:
        at = start - 1
        for _ in range(occurrence):
            at = text.find(part, max(at, 0))
            if at < 0:
                return 0
            at += 1
        return at
    at = len(text) + start
    if at < 0:
        return 0
    for count in range(occurrence):
        at = text.rfind(part, 0, at + len(part) if count == 0 else at + len(part) - 1)
        if at < 0:
            return 0
    return at + 1


def _locate(part: str, text: str, start: int = 1) -> int:
    return text.find(part, max(start, 1) - 1) + 1 if part else 1


def _ends(call: Call, evaluator: Any) -> Callable[..., bool]:
    if call.function == "STARTSWITH":
        return lambda text, part: text.startswith(part)
    return lambda text, part: text.endswith(part)


def _like(call: Call, evaluator: Any) -> Callable[..., bool]:
    make = like_pattern if call.function == "LIKE" else similar_pattern
    return lambda text, pattern, escape=None: make(pattern, escape).fullmatch(text) is not None


def _like_kernel(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    """Compute a pattern without ``_`` and with ``%`` at its ends only by Arrow, others per value."""
    import pyarrow.compute as pc

    pattern = call.args[1].value if isinstance(call.args[1], Literal) else None
    if pattern is not None and len(call.args) == 2 and "_" not in pattern:
        body = pattern.strip("%")
        if "%" not in body and body:
            first, last = pattern.startswith("%"), pattern.endswith("%")
            if first and last:
                return pc.match_substring(arguments[0], body)
            if first:
                return pc.ends_with(arguments[0], body)
            return pc.starts_with(arguments[0], body) if last else pc.equal(arguments[0], body)
    return _like_per_value(call, arguments, evaluator)


_like_per_value = bound(_like)


# -- bytes


def _charset(name: str) -> str:
    return name.lower().replace("_", "-")


def _unknown_charset(charset: str) -> EvaluationError:
    known = "'US-ASCII', 'ISO-8859-1', 'UTF-8', 'UTF-16BE', 'UTF-16LE', 'UTF-16'"
    return EvaluationError(f"Unsupported encoding: {charset}, please use one of {known}.")


def _encode(text: str, charset: str) -> bytes:
    try:
        if _charset(charset) == "utf-16":
            return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
        return text.encode(_charset(charset), "replace")
    except LookupError:
        raise _unknown_charset(charset) from None


def _decode(data: bytes, charset: str) -> str:
    name = _charset(charset)
    if name == "utf-16" and data[:2] not in (b"\xfe\xff", b"\xff\xfe"):
        name = "utf-16-be"
    try:
        return data.decode(name, "replace")
    except LookupError:
        raise _unknown_charset(charset) from None


def _to_base64(value: Any) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _from_base64(value: Any) -> str:
    data = value.encode() if isinstance(value, str) else value
    try:
        return base64.b64decode(data + b"=" * (-len(data) % 4), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(f"{value!r} is no base 64: {error}") from None


def _ascii(text: str) -> int:
    first = text.encode()[0] if text else 0
    return first - 256 if first > 127 else first


def _chr(value: int) -> str:
    if value < 0:
        return ""
    return chr(value & 0xFF)


def _printf(call: Call, evaluator: Any) -> Callable[..., Any]:
    from funken.expr.sql.formats import java_format, java_value

    plain = [java_value(each.type) for each in call.args[1:]]

    def filled(pattern: str | None, *values: Any) -> str | None:
        if pattern is None:
            return None
        return java_format(
            pattern, [None if each is None else of(each) for of, each in zip(plain, values, strict=True)]
        )

    return filled


def _of_text_or_number(check: Callable[[str], bool]) -> Any:
    """Return the kernel of a check of texts: a number of SQL always passes it, NULL as a text never."""

    def make(call: Call, evaluator: Any) -> Callable[..., bool]:
        if isinstance(call.args[0].type, NumericType):
            return lambda _: True
        return lambda text: text is not None and check(text)

    return bound(make, C)


def _is_decimal(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text) is not None


def _is_alpha(text: Any) -> bool:
    return isinstance(text, str) and text.isalpha()


def _length(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow.compute as pc

    return pc.utf8_length(arguments[0])


_LOWER = per_value(str.lower)


def _lower(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow.compute as pc

    if (
        pc.all(pc.string_is_ascii(arguments[0])).as_py() is False
    ):  # Java's and Python's rules go beyond single characters
        return _LOWER(call, arguments, evaluator)
    return pc.ascii_lower(arguments[0])


def _row(
    name: str, params: Any, returns: Any, kernel: Any, text: str, *examples: tuple[str, str], **more: Any
) -> FunctionRule:
    return function(name, params, returns, kernel, text, *examples, group=_GROUP, **more)


_BASICS: list[FunctionRule] = [
    _row(
        "||",
        ["text text", "bytes bytes"],
        _joined,
        lambda a, b: a + b,
        "Both texts, one after the other.",
        ("'a' || 'b'", "ab"),
        signatures=("<CHARACTER_STRING> || <CHARACTER_STRING>",),
    ),
    _row(
        "CHAR_LENGTH",
        "text",
        "INT",
        of_columns(_length),
        "The number of characters.",
        ("CHAR_LENGTH('Flink')", "5"),
        aliases=("CHARACTER_LENGTH",),
    ),
    _row("UPPER", "text", "$0", lambda text: text.upper(), "The text in upper case.", ("UPPER('ab')", "AB")),
    _row("LOWER", "text", "$0", of_columns(_lower), "The text in lower case.", ("LOWER('AB')", "ab")),
    _row(
        "INITCAP",
        "text",
        "$0",
        _initcap,
        "The text with each word's first letter in upper case.",
        ("INITCAP('a bC')", "A Bc"),
    ),
    _row(
        "SUBSTRING",
        ["text|bytes int int?"],
        _nullable_varying,
        substring,
        "The part from a position that counts from 1, from the end if negative.",
        ("SUBSTRING('abc', 2)", "bc"),
        ("SUBSTRING('abc', -2)", "bc"),
        aliases=("SUBSTR",),
    ),
    _row("LEFT", "text int", _nullable_varying, _left, "The first characters.", ("LEFT('Hello', 2)", "He")),
    _row("RIGHT", "text int", _nullable_varying, _right, "The last characters.", ("RIGHT('Hello', 3)", "llo")),
    _row(
        "TRIM",
        "text text?",
        _varying,
        bound(_trim),
        "The text without blanks, or the given characters, at its ends.",
        ("TRIM('  a ')", "a"),
    ),
    _row(
        "LTRIM",
        "text text?",
        _varying,
        bound(_trim),
        "The text without blanks, or the given characters, at its start.",
        ("LTRIM('xxa', 'x')", "a"),
    ),
    _row(
        "RTRIM",
        "text text?",
        _varying,
        bound(_trim),
        "The text without blanks, or the given characters, at its end.",
        ("RTRIM('axx', 'x')", "a"),
    ),
    _row(
        "BTRIM",
        "str:text trimStr:text?",
        "STRING",
        bound(_trim),
        "The text without blanks, or the given characters, at both ends.",
        ("BTRIM('xax', 'x')", "a"),
    ),
    _row(
        "CONCAT",
        "text+",
        "STRING",
        lambda *parts: "".join(parts),
        "All texts, one after the other; NULL if one is NULL.",
        ("CONCAT('a', 'b', 'c')", "abc"),
    ),
    _row(
        "CONCAT_WS",
        "text text*",
        "STRING",
        per_value(_concat_ws, C),
        "The texts with a separator between them; NULLs are left out.",
        ("CONCAT_WS('~', 'a', 'b')", "a~b"),
        nulls=C,
    ),
    _row(
        "REPLACE",
        "text text text",
        "STRING",
        lambda text, old, new: text.replace(old, new),
        "The text with every occurrence of a part replaced.",
        ("REPLACE('hello', 'l', 'L')", "heLLo"),
    ),
    _row(
        "REPEAT",
        "text int",
        "STRING",
        lambda text, count: text * max(count, 0),
        "The text so many times.",
        ("REPEAT('ab', 2)", "abab"),
    ),
    _row("REVERSE", "text", "STRING?", lambda text: text[::-1], "The text backwards.", ("REVERSE('abc')", "cba")),
    _row(
        "TRANSLATE",
        "expr:text fromStr:text toStr:text",
        lambda args, options: STRING.nullable(args[0].type.is_nullable),
        per_value(lambda text, old, new: text if text is None or old is None else _translate(text, old, new), C),
        "The text with characters replaced one by one; those without a partner are removed.",
        ("TRANSLATE('www.apache.org', 'wapcheorg', ' APCHEcom')", "   .APACHE.com"),
        nulls=C,
        aliases=("TRANSLATE3",),
    ),
    _row(
        "OVERLAY",
        ["text text int int?"],
        _overlaid,
        _overlay,
        "The text with a part replaced by another text.",
        ("OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6 FOR 2)", "xxxxxxxxxst"),
    ),
]


_PADDINGS: list[FunctionRule] = [
    _row(
        "LPAD",
        "text int text",
        "STRING",
        lambda text, length, pad: _pad(text, length, pad, True),
        "The text filled up on the left, or cut, to a length.",
        ("LPAD('hi', 4, '??')", "??hi"),
    ),
    _row(
        "RPAD",
        "text int text",
        "STRING",
        lambda text, length, pad: _pad(text, length, pad, False),
        "The text filled up on the right, or cut, to a length.",
        ("RPAD('hi', 4, '??')", "hi??"),
    ),
    _row(
        "SPLIT_INDEX",
        "text text|int int",
        "STRING?",
        of_columns(_split_indexes),
        "The part at an index, from 0, of a text that a separator splits.",
        ("SPLIT_INDEX('a,b,c', ',', 1)", "b"),
    ),
    _row(
        "SPLIT",
        "text text",
        "ARRAY<STRING>",
        _split,
        "The parts of a text that a separator splits.",
        ("SPLIT('a,b', ',')", "[a, b]"),
    ),
    _row(
        "ELT",
        ["index:bigint expr:text exprs:text*", "index:bigint expr:bytes exprs:bytes*"],
        _elt_type,
        per_value(_elt, C),
        "The argument at an index, from 1.",
        ("ELT(2, 'a', 'b')", "b"),
        nulls=C,
        check=_elt_index,
    ),
    _row(
        "PRINTF",
        "format:text obj:any*",
        "STRING?",
        bound(_printf, C),
        "The text with its format specifiers filled in, as Java does.",
        ("PRINTF('%d %s', 1, 'a')", "1 a"),
        nulls=C,
    ),
]


_SEARCHES: list[FunctionRule] = [
    _row(
        "POSITION",
        "text text",
        "INT",
        lambda part, text: text.find(part) + 1,
        "The position of a text in another one, from 1; 0 if it is not there.",
        ("POSITION('b' IN 'abc')", "2"),
    ),
    _row(
        "LOCATE",
        "text text int?",
        "INT",
        _locate,
        "The position of a text in another one, from a start.",
        ("LOCATE('aa', 'aaads', 2)", "2"),
    ),
    _row(
        "INSTR",
        "text text int? int?",
        "INT",
        _instr,
        "The position of an occurrence of a part; a negative start searches backwards.",
        ("INSTR('Corporate Floor', 'or', 3, 2)", "14"),
        raises=True,
    ),
    _row(
        "STARTSWITH",
        ["expr:text startExpr:text", "expr:bytes startExpr:bytes"],
        "BOOLEAN",
        bound(_ends),
        "Whether the text begins with another one.",
        ("STARTSWITH('abc', 'a')", "TRUE"),
    ),
    _row(
        "ENDSWITH",
        ["expr:text endExpr:text", "expr:bytes endExpr:bytes"],
        "BOOLEAN",
        bound(_ends),
        "Whether the text ends with another one.",
        ("ENDSWITH('abc', 'c')", "TRUE"),
    ),
    _row(
        "LIKE",
        "text text text?",
        "BOOLEAN",
        of_columns(_like_kernel),
        "Whether the text matches a pattern: ``%`` is any text, ``_`` one character.",
        ("'abc' LIKE 'a%'", "TRUE"),
        raises=True,
        signatures=("<CHARACTER_STRING> LIKE <CHARACTER_STRING> [ESCAPE <CHARACTER_STRING>]",),
    ),
    _row(
        "SIMILAR TO",
        "text text text?",
        "BOOLEAN",
        bound(_like),
        "Whether the text matches a regular expression of SQL.",
        ("'abc' SIMILAR TO '(a|b)%'", "TRUE"),
        raises=True,
        signatures=("<CHARACTER_STRING> SIMILAR TO <CHARACTER_STRING> [ESCAPE <CHARACTER_STRING>]",),
    ),
]


_EXPRESSIONS: list[FunctionRule] = [
    _row(
        "REGEXP",
        "text text",
        "BOOLEAN",
        patterns.REGEXP,
        "Whether a part of the text matches a regular expression.",
        ("REGEXP('abc123', '[0-9]+')", "TRUE"),
        raises=True,
    ),
    _row(
        "REGEXP_EXTRACT",
        "text text bigint?",
        "STRING?",
        patterns.REGEXP_EXTRACT,
        "A group (0: all) of the first match.",
        ("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)", "bar"),
    ),
    _row(
        "REGEXP_EXTRACT_ALL",
        "str:text regex:text extractIndex:bigint?",
        "ARRAY<STRING>?",
        patterns.REGEXP_EXTRACT_ALL,
        "A group (1) of every match.",
        ("REGEXP_EXTRACT_ALL('a1b2', '([a-z])([0-9])', 2)", "[1, 2]"),
    ),
    _row(
        "REGEXP_REPLACE",
        "text text text",
        "STRING",
        patterns.REGEXP_REPLACE,
        "The text with every match replaced.",
        ("REGEXP_REPLACE('foobar', 'oo|ar', '')", "fb"),
    ),
    _row(
        "REGEXP_COUNT",
        "str:text regex:text",
        "INT?",
        patterns.REGEXP_COUNT,
        "The number of matches.",
        ("REGEXP_COUNT('abcab', 'ab')", "2"),
    ),
    _row(
        "REGEXP_INSTR",
        "str:text regex:text",
        "INT?",
        patterns.REGEXP_INSTR,
        "The position of the first match, from 1.",
        ("REGEXP_INSTR('abc', 'b')", "2"),
    ),
    _row(
        "REGEXP_SUBSTR",
        "str:text regex:text",
        "STRING?",
        patterns.REGEXP_SUBSTR,
        "The first match.",
        ("REGEXP_SUBSTR('ab12', '[0-9]+')", "12"),
    ),
    _row(
        "IS_DECIMAL",
        "text|number",
        "BOOLEAN!",
        _of_text_or_number(_is_decimal),
        "Whether the text is a number.",
        ("IS_DECIMAL('1.5')", "TRUE"),
        nulls=C,
    ),
    _row(
        "IS_DIGIT",
        "text|number",
        "BOOLEAN!",
        _of_text_or_number(str.isdigit),
        "Whether the text has digits only.",
        ("IS_DIGIT('15')", "TRUE"),
        nulls=C,
    ),
    _row(
        "IS_ALPHA",
        "any",
        "BOOLEAN!",
        per_value(_is_alpha, C),
        "Whether the text has letters only.",
        ("IS_ALPHA('ab')", "TRUE"),
        nulls=C,
    ),
]


_BYTES: list[FunctionRule] = [
    _row("ASCII", "text", "INT", _ascii, "The code of the first character.", ("ASCII('abc')", "97")),
    _row("CHR", "bigint", "STRING?", _chr, "The character of a code.", ("CHR(65)", "A")),
    _row(
        "ENCODE",
        "text text",
        "BYTES",
        _encode,
        "The bytes of a text in a character set.",
        ("HEX(ENCODE('ab', 'UTF-8'))", "6162"),
        raises=True,
    ),
    _row(
        "DECODE",
        "bytes text",
        "STRING",
        _decode,
        "The text of bytes in a character set.",
        ("DECODE(ENCODE('ab', 'UTF-8'), 'UTF-8')", "ab"),
        raises=True,
    ),
    _row(
        "TO_BASE64",
        "text|bytes",
        "STRING",
        _to_base64,
        "The text in base 64.",
        ("TO_BASE64('hello world')", "aGVsbG8gd29ybGQ="),
    ),
    _row(
        "FROM_BASE64",
        "text|bytes",
        "STRING",
        _from_base64,
        "The text that base 64 stands for.",
        ("FROM_BASE64('aGVsbG8gd29ybGQ=')", "hello world"),
        raises=True,
    ),
]

ROWS = [*_BASICS, *_PADDINGS, *_SEARCHES, *_EXPRESSIONS, *_BYTES]
