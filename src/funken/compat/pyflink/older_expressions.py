"""Expressions as texts, which PyFlink took until 1.13: ``"word, count(1) as n"`` becomes expressions of the Table API.

The texts are Java's: ``a.sum``, ``a === 'x' && !b``, ``10.minutes``, ``a.cast(STRING)``, ``max(b) over w``. Python's parser
reads them once the operators are replaced.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from funken.errors import InvalidProgram
from funken.table import expressions
from funken.table.expression import Expression, col, lit, lit_or_expression
from funken.table.types import parse_type

_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|===|!==|==|!=|<=|>=|<>|&&|\|\||!(?!=)|=|\d+\.(?=[A-Za-z])|[\w.$]+|\s+|.""", re.DOTALL
)
_AS_PYTHON = {"===": "==", "!==": "!=", "<>": "!=", "=": "==", "&&": " and ", "||": " or ", "!": " not ", "&": " and ",
              "|": " or "}  # fmt: skip
_WORDS = {"true": True, "false": False}
_ALIAS = re.compile(r"^(.*\S)\s+as\s+(?:\(([^()]*)\)|`?(\w+)`?)$", re.DOTALL | re.IGNORECASE)
_AMONG = re.compile(r"^`?(\w+)`?\.in\(\s*`?([A-Za-z_][\w$]*)`?\s*\)$")
"""A column and the table whose only column may have it."""
_OVER = re.compile(r"^(.*\S)\s+over\s+`?(\w+)`?$", re.DOTALL | re.IGNORECASE)
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.Mod: lambda a, b: a % b, ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b, ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
}  # fmt: skip


IsRegistered = Callable[[str], bool]
"""Return True for the name of a function that the program has registered: it goes before one of Flink's."""


def _nothing(name: str) -> bool:
    return False


def expressions_of(text: str, is_registered: IsRegistered = _nothing) -> list[Expression]:
    """Return the expressions of a text, which commas separate.

    >>> expressions_of("word, count(1) as n")
    [word, as(count(1), 'n')]
    >>> expressions_of("a.sum as s, b.cast(STRING), c.upperCase()")
    [as(sum(a), 's'), cast(b, STRING), upper(c)]
    >>> expressions_of("a === 'x' && !(b > 1)")
    [and(equals(a, 'x'), not(greaterThan(b, 1)))]
    >>> expressions_of("a = 'x' and b = 1 OR c.isNull")
    [or(and(equals(a, 'x'), equals(b, 1)), isNull(c))]
    >>> expressions_of("split(a, b, c)", lambda name: name == "split")
    [split(a, b, c)]
    """
    return [_named(part, is_registered) for part in split(text)]


def expression_of(text: str, is_registered: IsRegistered = _nothing) -> Expression:
    """Return the one expression of a text."""
    found = expressions_of(text, is_registered)
    if len(found) != 1:
        raise InvalidProgram(f"{text!r} is {len(found)} expressions, but one is needed here.")
    return found[0]


def split(text: str) -> list[str]:
    """Return the parts between commas that are in no parentheses and no text.

    >>> split("a, f(b, c), 'd,e'")
    ['a', 'f(b, c)', "'d,e'"]
    """
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token == "(") - (token == ")")
        if token == "," and not depth:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts if part.strip()]


def _named(text: str, is_registered: IsRegistered) -> Expression:
    found = _ALIAS.match(text)
    if found is not None:
        names = split(found[2]) if found[2] else [found[3]]
        return _named(found[1], is_registered).alias(*names)
    over = _OVER.match(text)
    if over is not None:
        return _named(over[1], is_registered).over(col(over[2]))
    if text == "*":
        return col("*")
    among = _AMONG.match(text)
    if among is not None and among[2].lower() not in ("true", "false", "null"):
        return expressions.call_sql(f"`{among[1]}` IN (SELECT * FROM `{among[2]}`)")
    source = _source(text)
    try:
        tree = ast.parse(source.strip(), mode="eval").body
        return lit_or_expression(_built(tree, is_registered))
    except (SyntaxError, AttributeError, KeyError, TypeError) as error:
        raise InvalidProgram(
            f"the expression {text!r} cannot be read: {error}. Write it with funken's expressions, such as col('a').sum."
        ) from None


def _source(text: str) -> str:
    """Return a text as Python's: ``and`` and ``or`` join two operands, unless they are called, as ``a.and(b)`` is."""
    tokens = _TOKEN.findall(text.replace("`", ""))
    beside = zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False)
    joins = [token.lower() in ("and", "or") and before.isspace() and after != "(" for before, token, after in beside]
    return "".join(token.lower() if join else _python(token) for join, token in zip(joins, tokens, strict=True))


def _python(token: str) -> str:
    if token.startswith("'") and len(token) > 1:
        return repr(token[1:-1].replace("''", "'"))
    if re.fullmatch(r"\d+\.", token):
        return f"({token[:-1]})."
    return _AS_PYTHON.get(
        token, re.sub(r"(?<![\w])(in|as|not|and|or)(?![\w])", r"\1_", re.sub(r"\.(in|as)$", r".\1_", token))
    )


def _built(tree: ast.expr, is_registered: IsRegistered) -> Any:
    """Return the expression, or the constant, of a tree."""

    def part(node: ast.expr) -> Any:
        return _built(node, is_registered)

    match tree:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _WORDS[name.lower()] if name.lower() in _WORDS else col(name)
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](lit_or_expression(part(left)), part(right))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _OPERATORS[type(operator)](lit_or_expression(part(left)), part(right))
        case ast.BoolOp(op=operator, values=values):
            joined = expressions.and_ if isinstance(operator, ast.And) else expressions.or_
            return joined(*map(part, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return expressions.not_(part(operand))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = part(operand)
            return -value
        case ast.Attribute(value=value, attr=name):
            return _method(lit_or_expression(part(value)), name, None)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
            if name.rstrip("_") in ("cast", "tryCast"):
                return lit_or_expression(part(value)).cast(parse_type(ast.unparse(args[0])))
            own = [*map(part, args)]
            if is_registered(name):
                return expressions.call(name, part(value), *own)
            return _method(lit_or_expression(part(value)), name, own)
        case ast.Call(func=ast.Name(id=name), args=args):
            given = [*map(part, args)]
            return expressions.call(name, *given) if is_registered(name) else _call(name, given)
    raise SyntaxError(f"{ast.unparse(tree)!r} is no expression of the Table API")


def _snake(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name.rstrip("_")).lower()


_RENAMED = {"in": "in_", "as": "alias", "not": "not_", "or": "or_", "and": "and_", "upper": "upper_case",
            "lower": "lower_case", "like": "like"}  # fmt: skip


def _method(value: Expression, name: str, args: Sequence[Any] | None) -> Expression:
    """Return the property or method of an expression; a field of a ROW if there is none of that name."""
    own = _RENAMED.get(name.rstrip("_"), _snake(name))
    if args is None and not hasattr(Expression, own):
        return value.get(name)
    found = getattr(value, own)
    if callable(found) and not isinstance(found, Expression):
        result: Expression = found(*(args or ()))
        return result
    shown: Expression = found
    return shown


_AGGREGATES = (
    "sum",
    "sum0",
    "min",
    "max",
    "count",
    "avg",
    "stddev_pop",
    "stddev_samp",
    "var_pop",
    "var_samp",
    "collect",
)


def _call(name: str, args: Sequence[Any]) -> Expression:
    """Return a call of an aggregate, of a function of the Table API, or of one that is registered."""
    own = _RENAMED.get(name, _snake(name))
    if own in _AGGREGATES and len(args) == 1:
        found: Expression = getattr(lit_or_expression(args[0]), own)
        return found
    if own in expressions.__all__ and own not in ("call", "col", "lit"):
        made: Expression = getattr(expressions, own)(*args)
        return made
    if args and hasattr(Expression, own) and name not in ("get",):
        return _method(lit_or_expression(args[0]), own, args[1:])
    return expressions.call(name, *args)


def interval_of(text: str) -> Expression:
    """Return a size, or a bound, of a window.

    >>> interval_of("10.minutes"), interval_of("2.rows"), interval_of("unbounded_range")
    (600000, 2, UNBOUNDED_RANGE)
    """
    plain = text.strip()
    rows = re.fullmatch(r"(\d+)\.rows?", plain)
    if rows is not None:
        return expressions.row_interval(int(rows[1]))
    if plain.upper() in ("UNBOUNDED_ROW", "UNBOUNDED_RANGE", "CURRENT_ROW", "CURRENT_RANGE"):
        bound: Expression = getattr(expressions, plain.upper())
        return bound
    return expression_of(plain)


__all__ = ["expression_of", "expressions_of", "interval_of", "lit", "split"]
