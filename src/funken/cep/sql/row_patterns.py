"""The PATTERN clause of MATCH_RECOGNIZE: variables, quantifiers, parentheses and alternatives, as plain data.

``A B+ (C | D){2,3}? E*``: a sequence of elements. Alternatives are variables of one row each. What SQL has besides (anchors,
exclusion, PERMUTE, groups with quantifiers, alternatives of several rows) is refused here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from funken.errors import InvalidProgram

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<count>\{\s*\d*\s*(?:,\s*\d*\s*)?\})|(?P<mark>\{-|-\}|\S))")


@dataclass(frozen=True)
class Element:
    """One variable, or alternatives of which the first that fits takes a row; and how many rows it takes."""

    variables: tuple[str, ...]
    least: int = 1
    most: int | None = 1
    greedy: bool = True

    @property
    def name(self) -> str:
        """The name of the pattern that stands for it."""
        return "|".join(self.variables)

    @property
    def quantified(self) -> bool:
        """Whether it may take another number of rows than one."""
        return (self.least, self.most) != (1, 1)


def parse(text: str) -> list[Element]:
    """Return the elements of a PATTERN clause.

    >>> parse("A B*?")
    [Element(variables=('A',), least=1, most=1, greedy=True), Element(variables=('B',), least=0, most=None, greedy=False)]
    """
    tokens = [match.group().strip() for match in _TOKEN.finditer(text.strip())]
    parser = _Parser(text, tokens)
    found = parser.sequence()
    if parser.tokens or not found:
        raise parser.refused("it is empty" if not found else f"there is no '(' for {parser.tokens[0]!r}")
    seen: set[str] = set()
    for element in found:
        for variable in element.variables:
            if variable in seen:
                raise parser.refused(f"the variable {variable} stands in it twice, which is not supported")
            seen.add(variable)
    return found


class _Parser:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens

    def refused(self, fact: str) -> InvalidProgram:
        return InvalidProgram(f"MATCH_RECOGNIZE, PATTERN ({self.text.strip()}): {fact}.")

    def sequence(self) -> list[Element]:
        found: list[Element] = []
        alternatives: list[list[Element]] = []
        while self.tokens and self.tokens[0] != ")":
            if self.tokens[0] == "|":
                self.tokens.pop(0)
                alternatives.append(found)
                found = []
            else:
                found += self.quantified(self.element())
        if not alternatives:
            return found
        alternatives.append(found)
        if any(len(each) != 1 or each[0].quantified for each in alternatives):
            raise self.refused("an alternative is one variable, without a quantifier; others are not supported")
        return [Element(tuple(variable for each in alternatives for variable in each[0].variables))]

    def element(self) -> list[Element]:
        token = self.tokens.pop(0)
        if token == "(":
            inside = self.sequence()
            if not self.tokens:
                raise self.refused("a ')' is missing")
            self.tokens.pop(0)
            return inside
        if token.upper() == "PERMUTE" and self.tokens[:1] == ["("]:
            raise self.refused("PERMUTE is not supported")
        if not re.fullmatch(r"[A-Za-z_]\w*", token):
            names = {"^": "the anchor ^", "$": "the anchor $", "{-": "exclusion {- -}"}
            raise self.refused(f"{names.get(token, repr(token))} is not supported")
        return [Element((token,))]

    def quantified(self, elements: list[Element]) -> list[Element]:
        if not self.tokens or not (self.tokens[0] in {"*", "+", "?"} or re.match(r"\{\s*[\d,]", self.tokens[0])):
            return elements
        token = self.tokens.pop(0)
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(token) or self.counts(token)
        reluctant = self.tokens[:1] == ["?"]
        if reluctant:
            self.tokens.pop(0)
        if len(elements) != 1 or elements[0].quantified:
            raise self.refused(f"the quantifier {token} of a group is not supported; put it on the variables")
        return [replace(elements[0], least=least, most=most, greedy=not reluctant)]

    def counts(self, token: str) -> tuple[int, int | None]:
        low, comma, high = (part.strip() for part in token[1:-1].partition(","))
        least = int(low or 0)
        most = least if not comma else int(high) if high else None
        if most is not None and (most < least or most == 0):
            raise self.refused(f"the quantifier {token} allows no row")
        return least, most
