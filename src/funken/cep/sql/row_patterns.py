"""The PATTERN clause of MATCH_RECOGNIZE: what SQL:2016 has in it, as plain data.

``^ A (B C | D)+? {- E* -} PERMUTE(F, G) $``: variables in sequence, alternatives, groups, quantifiers that are greedy unless a
``?`` follows, exclusion, anchors. PERMUTE becomes the alternatives that it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from funken.errors import InvalidProgram

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<count>\{\s*\d*\s*(?:,\s*\d*\s*)?\})|(?P<mark>\{-|-\}|\S))")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_PERMUTED = 6


@dataclass(frozen=True)
class Variable:
    """A row that fulfils the condition of a variable; an excluded one is not among ALL ROWS PER MATCH."""

    name: str
    excluded: bool = False


@dataclass(frozen=True)
class Anchor:
    """``^``, before the first row of a partition, or ``$``, behind its last."""

    mark: str


@dataclass(frozen=True)
class Concatenation:
    """One after the other."""

    items: tuple[RowPattern, ...]


@dataclass(frozen=True)
class Alternation:
    """One of several; the earlier is preferred."""

    options: tuple[RowPattern, ...]


@dataclass(frozen=True)
class Repetition:
    """A number of times, as many as possible, or as few; ``most`` is ``None`` for any number."""

    item: RowPattern
    least: int
    most: int | None
    greedy: bool = True


RowPattern = Variable | Anchor | Concatenation | Alternation | Repetition


def variables_of(pattern: RowPattern) -> list[str]:
    """Return the variables of a pattern, in the order in which they first stand in it.

    >>> variables_of(parse("A (B | A) C"))
    ['A', 'B', 'C']
    """
    return list(dict.fromkeys(_names(pattern)))


def _names(pattern: RowPattern) -> Iterator[str]:
    match pattern:
        case Variable(name):
            yield name
        case Concatenation(items) | Alternation(items):
            for item in items:
                yield from _names(item)
        case Repetition(item):
            yield from _names(item)


def parse(text: str) -> RowPattern:
    """Return the PATTERN clause ``text`` as data.

    >>> parse("A B*?")
    Concatenation(items=(Variable(name='A', excluded=False), Repetition(item=Variable(name='B', excluded=False), least=0, most=None, greedy=False)))
    """  # noqa: E501
    parser = _Parser(text, [match.group().strip() for match in _TOKEN.finditer(text.strip())])
    found = parser.alternation()
    if parser.tokens:
        raise parser.refused(f"there is no '(' for {parser.tokens[0]!r}")
    if not variables_of(found):
        raise parser.refused("it has no variable")
    return found


class _Parser:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens
        self.excluded = False

    def refused(self, fact: str) -> InvalidProgram:
        return InvalidProgram(f"MATCH_RECOGNIZE, PATTERN ({self.text.strip()}): {fact}.")

    def alternation(self) -> RowPattern:
        options = [self.concatenation()]
        while self.tokens[:1] == ["|"]:
            self.tokens.pop(0)
            options.append(self.concatenation())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def concatenation(self) -> RowPattern:
        items: list[RowPattern] = []
        while self.tokens and self.tokens[0] not in {")", "|", "-}", ","}:
            items.append(self.quantified(self.item()))
        return items[0] if len(items) == 1 else Concatenation(tuple(items))

    def item(self) -> RowPattern:
        token = self.tokens.pop(0)
        if token == "(":
            return self.closed(")")
        if token == "{-":
            if self.excluded:
                raise self.refused("an exclusion {- -} lies within another")
            self.excluded = True
            found = self.closed("-}")
            self.excluded = False
            return found
        if token in {"^", "$"}:
            return Anchor(token)
        if token.upper() == "PERMUTE" and self.tokens[:1] == ["("]:
            return self.permuted()
        if not _NAME.fullmatch(token):
            raise self.refused(f"{token!r} is not supported")
        return Variable(token, self.excluded)

    def closed(self, end: str) -> RowPattern:
        found = self.alternation()
        if self.tokens[:1] != [end]:
            raise self.refused(f"a {end!r} is missing")
        self.tokens.pop(0)
        return found

    def permuted(self) -> RowPattern:
        items, separator = [], self.tokens.pop(0)
        while separator in {"(", ","}:
            items.append(self.alternation())
            separator = self.tokens.pop(0) if self.tokens else ""
        if separator != ")":
            raise self.refused("a ')' is missing")
        if len(items) > _MOST_PERMUTED:
            raise self.refused(f"PERMUTE of {len(items)}; at most {_MOST_PERMUTED} are supported")
        return Alternation(tuple(Concatenation(order) for order in permutations(items)))

    def quantified(self, item: RowPattern) -> RowPattern:
        if not self.tokens or not (self.tokens[0] in {"*", "+", "?"} or re.match(r"\{\s*[\d,]", self.tokens[0])):
            return item
        token = self.tokens.pop(0)
        if isinstance(item, Anchor):
            raise self.refused(f"the quantifier {token} of the anchor {item.mark}")
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(token) or self.counts(token)
        reluctant = self.tokens[:1] == ["?"]
        if reluctant:
            self.tokens.pop(0)
        return Repetition(item, least, most, not reluctant)

    def counts(self, token: str) -> tuple[int, int | None]:
        low, comma, high = (part.strip() for part in token[1:-1].partition(","))
        least = int(low or 0)
        most = least if not comma else int(high) if high else None
        if most is not None and (most < least or most == 0):
            raise self.refused(f"the quantifier {token} allows no row")
        return least, most
