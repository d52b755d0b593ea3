"""The text of a view's query as SHOW CREATE VIEW has it: Flink's layout over the words of the program.

Names are in full and in backticks, words of SQL in capitals, and each clause is on a line. The order of words stays, but for
``LIMIT``. Comments are left out. A text with hints, or with tables that have more than an alias, stays as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from sqlglot.tokenizer_core import Token, TokenType

from funken.dataclass import dataclass
from funken.expr.sql.functions import FUNCTIONS
from funken.table.sql.reader import TokenReader
from funken.table.types import quoted

_CLAUSES = {
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "UNION",
    "UNION ALL",
    "INTERSECT",
    "EXCEPT",
    "LIMIT",
    "OFFSET",
    "FETCH",
}
_JOINS = {"INNER", "LEFT", "RIGHT", "FULL", "CROSS", "JOIN"}
_BEHIND_TABLES = _CLAUSES | _JOINS | {"", ",", ")", "ON", "USING", "AS"}
_SPACED = {
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "PARTITION BY", "BY", "AND", "OR", "NOT", "IN", "ON",
    "AS", "OVER", "VALUES", "EXISTS", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "JOIN", "UNION", "ALL", "UNION ALL",
    "INTERSECT", "EXCEPT", "FILTER", "WITH", "ANY", "SOME", "LATERAL", "USING", "INTERVAL",
}  # fmt: skip
_BEFORE_NAMES = {"AS", "FROM", "JOIN", "WITH", "ORDER BY", "GROUP BY"}
_SIGNS = set("=<>+-*/%|") | {"<=", ">=", "<>", "!=", "||", "=>"}
_ENDS = {TokenType.STRING, TokenType.NUMBER, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END, TokenType.NULL}
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


@dataclass(frozen=True)
class FullName:
    """A table, column or star in a text: where it ends, its names in full, and which of the three it is."""

    end: int
    text: str
    kind: str = "column"


Names: TypeAlias = Mapping[int, FullName]
"""Names in full, by where they begin in a text."""


class _UnknownForm(Exception):
    """A form of queries without a rule here."""


@dataclass
class _Piece:
    """A word of the text; ``token`` is ``None`` for a name in full."""

    text: str
    token: Token | None
    is_table: bool = False

    @property
    def word(self) -> str:
        """The word in capitals; empty for names and texts."""
        if self.token is None or self.token.token_type in {TokenType.STRING, *_NAMES}:
            return ""
        return " ".join(self.text.upper().split())

    @property
    def is_name(self) -> bool:
        """True for a name as the program wrote it."""
        return self.token is not None and self.token.token_type in _NAMES

    @property
    def ends(self) -> bool:
        """True if an expression may end here."""
        return self.token is None or self.token.token_type in _ENDS


_NOTHING = _Piece("", None)


def spliced(text: str, names: Names) -> str:
    """Return a text with names in full, and otherwise as it was written.

    >>> spliced("select a from t", {14: FullName(15, "`c`.`d`.`t`")})
    'select a from `c`.`d`.`t`'
    """
    for start in sorted(names, reverse=True):
        text = text[:start] + names[start].text + text[names[start].end :]
    return text.strip()


def view_text(text: str, names: Names) -> str | None:
    """Return the text of a query; ``None`` for one with hints, or with tables that have more than an alias.

    >>> names = {7: FullName(8, "`t`.`a`"), 16: FullName(17, "`c`.`d`.`t`", "table"), 24: FullName(25, "`t`.`a`")}
    >>> print(view_text("select a x from t where a>1", names))
    SELECT `t`.`a` AS `x`
    FROM `c`.`d`.`t` AS `t`
    WHERE `t`.`a` > 1
    """
    try:
        return _laid_out(list(_pieces(text, names)))
    except _UnknownForm:
        return None


def _pieces(text: str, names: Names) -> Iterator[_Piece]:
    hidden = 0
    for token in TokenReader(text).tokens:
        if token.token_type is TokenType.HINT or any(each.startswith("+") for each in token.comments):
            raise _UnknownForm
        if token.start < hidden:
            continue
        if token.start in names:
            name = names[token.start]
            hidden = name.end
            yield _Piece(name.text, None, name.kind == "table")
        else:
            yield _Piece(text[token.start : token.end + 1], token)


def _laid_out(pieces: list[_Piece]) -> str:
    found: list[str] = []
    queries, clauses = [True], ["SELECT"]
    """For each parenthesis around: True if it has a query, and the clause so far."""
    for place, piece in enumerate(pieces):
        before = pieces[place - 1] if place else _NOTHING
        after = pieces[place + 1] if place + 1 < len(pieces) else _NOTHING
        word = piece.word
        if word == ")":
            queries.pop(), clauses.pop()
        shown = _shown(pieces, place, clauses[-1])
        clause = queries[-1] and place > 0 and (
            (word in _CLAUSES and before.word != "DISTINCT")
            or (before.word == "," and clauses[-1] == "FROM")
            or (word in _JOINS and before.word not in _JOINS | {"OUTER"})
            or (word == "SELECT" and before.word in {"UNION", "UNION ALL", "ALL", "INTERSECT", "EXCEPT"})
        )  # fmt: skip
        if shown:
            found.append("\n" if clause else "" if not place or _sticks(pieces, place) else " ")
            found.append(shown)
        if word in _CLAUSES or word == "SELECT":
            clauses[-1] = word
        elif word == "(":
            queries.append(after.word in {"SELECT", "WITH"})
            clauses.append("")
    return "".join(found)


def _shown(pieces: list[_Piece], place: int, clause: str) -> str:
    """Return a piece of a clause as it is shown; ``""`` if it is left out."""
    before, piece, after = (pieces[at] if 0 <= at < len(pieces) else _NOTHING for at in (place - 1, place, place + 1))
    word = piece.word
    if piece.is_table:
        return _table(piece, before, after)
    if piece.token is None:
        return piece.text
    if piece.is_name:
        name = piece.token.text
        if piece.token.token_type is TokenType.VAR and after.word == "(":
            return name.upper() if name.upper() in FUNCTIONS else name
        is_unit = before.token is not None and before.token.token_type is TokenType.STRING
        if before.ends and not is_unit and place:
            return f"AS {quoted(name)}"
        if before.word in {"FROM", "JOIN"} and (after.word in _BEHIND_TABLES - {"AS"} and not after.is_name):
            return f"{quoted(name)} AS {quoted(name)}"
        listed = before.word == "," and clause in {"ORDER BY", "GROUP BY"}
        return quoted(name) if listed or before.word in _BEFORE_NAMES else piece.text
    if word == "JOIN" and before.word not in _JOINS | {"OUTER"}:
        return "INNER JOIN"
    if word == "OUTER" and after.word == "JOIN":
        return ""
    if word == "LIMIT":
        return "FETCH NEXT"
    if before.word == "LIMIT":
        return f"{piece.text} ROWS ONLY"
    if before.word == "FETCH":
        return "NEXT"
    return piece.text if piece.token.token_type is TokenType.STRING else word


def _table(piece: _Piece, before: _Piece, after: _Piece) -> str:
    """Return the name of a table with its alias, unless the alias comes next."""
    if before.word == "TABLE":
        return piece.text
    if after.is_name or after.word == "AS":
        return piece.text
    if after.word not in _BEHIND_TABLES or (after.token is None and after.text):
        raise _UnknownForm
    return f"{piece.text} AS {quoted(piece.text.rsplit('`.`', 1)[-1].strip('`').replace('``', '`'))}"


def _sticks(pieces: list[_Piece], place: int) -> bool:
    """Return True if a piece follows the one before without a space."""
    piece, before = pieces[place], pieces[place - 1]
    word, last = piece.word, before.word
    if word in {",", ")", ".", "]", "["} or last in {"(", ".", "["}:
        return True
    if last in {"-", "+"} and place > 1:
        earlier = pieces[place - 2]
        return not (earlier.ends or earlier.is_name)
    return word == "(" and last not in _SPACED | _SIGNS | {","} and (before.token is None or not before.ends)
