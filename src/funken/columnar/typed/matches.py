r"""Matches of regular expressions in expressions, and their groups, which are lists of texts.

A group is text, not ``None``, if the expression cannot match without it: ``(\d+)`` in ``(\d+)-(\d+)?``. Should that be wrong
for some version of ``re``, the block goes to the function, for a column of texts takes no ``None``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from funken.columnar.expressions import Constant, Expression, Make, NotVectorizable, Rowwise
from funken.expr.python.objects import PATTERN, literal_of
from funken.expr.python.table import TABLE
from funken.expr.types import DICT, INT, STR, Atomic, Record, Tuple, Type, optional

_Typed = tuple[Expression, Type]
_REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}


def matched(name: str, pattern: Constant, given: list[_Typed]) -> _Typed:
    """Return a call of a method of a regular expression; raise ``NotVectorizable``."""
    row = TABLE.find(name)
    kind = None if row is None else row.result((PATTERN, *(schema for _, schema in given)))
    if not isinstance(kind, Atomic):
        raise NotVectorizable(f"calls the method {name}() of a regular expression")
    literal = literal_of(pattern.value)
    if name == "sub" and literal and isinstance(given[0][0], Constant) and "\\" not in given[0][0].value:
        return Rowwise("str.replace", (given[1][0], Constant(literal), given[0][0]), STR), STR
    return Rowwise(name, (pattern, *(each for each, _ in given)), kind), kind


def of_match(name: str, made: Expression, given: tuple[Any, ...]) -> _Typed:
    """Return what ``group``, ``groups`` or ``groupdict`` of a match give; raise ``NotVectorizable``.

    ``given`` are the arguments, which have to be constants.
    """
    if any(not isinstance(each, Constant) or type(each.value) not in (int, str) for each in given):
        raise NotVectorizable(f"calls the method {name}() of a match with what is no constant")
    if name == "group":
        found = [group_of(made, each.value) for each in given or (Constant(0),)]
        if len(found) == 1:
            return found[0]
        return Make(tuple(each for each, _ in found)), Tuple(kind for _, kind in found)
    pattern = _pattern_of(made)
    if pattern is None or given or name not in ("groups", "groupdict"):
        raise NotVectorizable(f"calls the method {name}() of a match")
    names = tuple(pattern.groupindex) if name == "groupdict" else None
    found = [group_of(made, each) for each in (names if names is not None else range(1, pattern.groups + 1))]
    if not found:
        raise NotVectorizable("asks a match for groups, of which it has none")
    kinds = Tuple(kind for _, kind in found)
    result = Make(tuple(each for each, _ in found))
    return result, kinds if names is None else Record(kinds, DICT, names)


def group_of(made: Expression, group: int | str) -> _Typed:
    """Return a group of a match by its number or name; raise ``NotVectorizable`` if it has no such group.

    >>> from funken.columnar.expressions import Argument
    >>> found = Rowwise("match", (Constant(re.compile("(?P<key>a)(b)?")), Argument(0)), "match?")
    >>> [group_of(found, each)[1] for each in ("key", 1, 2, 0)]
    [str, str, str?, str]
    """
    pattern = _pattern_of(made)
    if pattern is None:
        if type(group) is str:
            raise NotVectorizable(f"takes the group {group!r} of a match of one of several regular expressions")
        kind = STR if group == 0 else optional(STR)
    else:
        number = pattern.groupindex.get(group) if isinstance(group, str) else group
        if number is None or not 0 <= number <= pattern.groups:
            raise NotVectorizable(f"takes the group {group!r}, which {pattern.pattern!r} has not")
        group = number
        kind = STR if group == 0 or group in _always_there(pattern) else optional(STR)
    return Rowwise("item", (made, Constant(group)), kind), kind


def item_of_match(made: Expression, index: _Typed) -> _Typed:
    """Return ``match[index]``; raise ``NotVectorizable``."""
    if isinstance(index[0], Constant) and type(index[0].value) in (int, str):
        return group_of(made, index[0].value)
    if index[1] != INT:
        raise NotVectorizable("takes a group of a match in a way that is not known")
    return Rowwise("item", (made, index[0]), optional(STR)), optional(STR)


def _pattern_of(made: Expression) -> re.Pattern[str] | None:
    """Return the regular expression that a match is of; ``None``: it may be one of several."""
    match made:
        case Rowwise("not none", (inner,)):
            return _pattern_of(inner)
        case Rowwise("search" | "match" | "fullmatch", (Constant(pattern), _)):
            found: re.Pattern[str] = pattern
            return found
    return None


@lru_cache(maxsize=256)
def _always_there(pattern: re.Pattern[str]) -> frozenset[int]:
    """Return the numbers of the groups without which a regular expression does not match."""
    try:
        return frozenset(_needed(parser.parse(pattern.pattern, pattern.flags)))
    except (re.error, RecursionError):
        return frozenset()


def _needed(parsed: Any) -> list[int]:
    found: list[int] = []
    for code, argument in parsed:
        if code is codes.SUBPATTERN:
            number, _, _, inner = argument
            found += _needed(inner) if number is None else [number, *_needed(inner)]
        elif code in _REPEATS and argument[0] > 0:
            found += _needed(argument[2])
        elif code is codes.ATOMIC_GROUP:
            found += _needed(argument)
        elif code is codes.BRANCH:
            found += frozenset.intersection(*(frozenset(_needed(each)) for each in argument[1]))
    return found


__all__ = ["group_of", "item_of_match", "matched", "of_match"]
