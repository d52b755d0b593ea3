"""The reader of a statement's tokens, one by one, with errors that say where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from funken.table.catalog import TableDistribution
from funken.table.sql import statements as st

try:
    from sqlglot.errors import TokenError
    from sqlglot.tokenizer_core import Token, TokenType

    from funken.table.sql.dialect import Flink
except ImportError as error:  # the extra is missing
    raise st.InvalidStatement("SQL texts need sqlglot: pip install 'funken[sql]'.") from error

BLANK = re.compile(r"[^\n]")


FOREIGN = {
    "&&": " Write AND.",
    "!": " Write <> for different values.",
    "#": " A comment begins with --.",
    "/": " A comment begins with --.",
    "-": " A comment begins with --.",
    "ILIKE": " Write UPPER(text) LIKE 'PATTERN%'.",
    "RLIKE": " Write REGEXP(text, 'pattern').",
    "REGEXP": " Write REGEXP(text, 'pattern').",
    "{": ' A text of Python with names in {} is an f-string: f"SELECT ...".',
}
"""Words and characters of other languages, with the remedy."""


def near_word(word: str, words: Iterable[str]) -> str:
    """Return the word of SQL that a misspelt one is like; ``""`` if there is none, or it is one of them.

    >>> near_word("FORM", ["SELECT", "FROM"]), near_word("item", ["SELECT", "FROM"])
    ('FROM', '')
    """
    known = list(words)
    return "" if word.upper() in known else next(iter(get_close_matches(word.upper(), known, 1, 0.7)), "")


class TokenReader:
    """Reads the tokens of one statement."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.tokens: Sequence[Token] = Flink().tokenize(text)
        except TokenError as error:
            raise st.InvalidStatement(untokenized(text, error)) from error
        self.at = 0

    # -- tokens

    @property
    def current(self) -> Token | None:
        """The next token; ``None`` at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """Return the text of a token in capitals; empty at the end, and for quoted ones."""
        place = self.at + ahead
        if place >= len(self.tokens):
            return ""
        token = self.tokens[place]
        return "" if token.token_type in {TokenType.STRING, TokenType.IDENTIFIER} else token.text.upper()

    def words(self, *expected: str) -> bool:
        """Return True if these words come next, and read them then. A token may be of two words (``PRIMARY KEY``)."""
        wanted = " ".join(expected)
        place, found = self.at, ""
        while place < len(self.tokens) and len(found) < len(wanted):
            token = self.tokens[place]
            if token.token_type in {TokenType.STRING, TokenType.IDENTIFIER}:
                return False
            found = f"{found} {' '.join(token.text.upper().split())}".strip()
            place += 1
        if found != wanted:
            return False
        self.at = place
        return True

    def need(self, *expected: str) -> None:
        """Read these words; others raise."""
        if not self.words(*expected):
            self.fail(" ".join(expected))

    def fail(self, expected: str) -> NoReturn:
        """Raise an error with the next token and its place."""
        token = self.current
        if token is None:
            line = self.text.count("\n") + 1
            raise st.InvalidStatement(f'SQL parse failed. Encountered "<EOF>" at line {line}. Expected {expected}.')
        line, column = self.place(token)
        near = near_word(token.text, re.findall(r"[A-Z]{2,}", expected))
        meant = f" Did you mean {near}?" if near else FOREIGN.get(token.text.upper(), "")
        raise st.InvalidStatement(
            f'SQL parse failed. Encountered "{token.text}" at line {line}, column {column}. Expected {expected}.{meant}'
        )

    def place(self, token: Token) -> tuple[int, int]:
        """Return line and column of a token, from 1."""
        before = self.text[: token.start]
        return before.count("\n") + 1, token.start - (before.rfind("\n") + 1) + 1

    def name(self) -> str:
        """Read a name."""
        token = self.current
        quoted = token is not None and token.token_type == TokenType.IDENTIFIER
        other = token is None or token.token_type in {TokenType.STRING, TokenType.NUMBER}
        if not quoted and (other or not re.match(r"[\w$]", token.text if token is not None else "")):
            self.fail("a name; leave out the comma before it" if token is not None and token.text == ")" else "a name")
        assert token is not None
        self.at += 1
        return token.text

    def path(self) -> st.Path:
        """Read a name with dots."""
        parts = [self.name()]
        while self.words("."):
            parts.append(self.name())
        return tuple(parts)

    def string(self) -> str:
        """Read a text in quotes."""
        token = self.current
        if token is None or token.token_type != TokenType.STRING:
            self.fail("a text in single quotes, as in 'kafka'")
        self.at += 1
        return token.text

    def end(self) -> None:
        """Raise if there is more."""
        if self.current is not None:
            self.fail("the end of the statement")

    def listed(self, item: Callable[[], Any]) -> tuple[Any, ...]:
        """Read a list in parentheses."""
        self.need("(")
        found = []
        if not self.words(")"):
            found.append(item())
            while self.words(","):
                found.append(item())
            if not self.words(")"):
                self.fail("a comma or )")
        return tuple(found)

    def options(self) -> st.Options:
        """Read ``('key' = 'value', ..)``."""

        def option() -> tuple[str, str]:
            key = self.string()
            self.need("=")
            return key, self.string()

        return tuple(dict(self.listed(option)).items())

    def partition(self) -> st.Options:
        """Read ``(key = value, ..)`` of PARTITION."""

        def constant() -> tuple[str, str]:
            key = self.name()
            self.need("=")
            token = self.current
            if token is None:
                self.fail("a constant")
            self.at += 1
            return key, token.text

        found: st.Options = self.listed(constant)
        names = [key for key, _ in found]
        twice = next((key for key in names if names.count(key) > 1), None)
        if twice is not None:
            raise st.InvalidStatement(f"PARTITION: target column '{twice}' is assigned more than once. Write it once.")
        return found

    def rest(self) -> str:
        """Return the text from here to the end, at its place: the text before is blank."""
        token = self.current
        if token is None:
            self.fail("a statement")
        start = token.start
        self.at = len(self.tokens)
        return BLANK.sub(" ", self.text[:start]) + self.text[start:]

    def slice(self, *stops: str) -> str:
        """The text up to a comma or closing parenthesis on this level, or one of the words."""
        first, depth = self.current, 0
        last = first
        while (token := self.current) is not None:
            text = token.text.upper()
            kind = token.token_type
            quoted = kind in {TokenType.STRING, TokenType.IDENTIFIER}
            if depth == 0 and not quoted and (text in {",", ")"} or text in stops):
                break
            if not quoted:
                depth += (text in {"(", "[", "<"}) - (text in {")", "]", ">"})
                if text == "<" and "AS" in stops:
                    pass
            last = token
            self.at += 1
        if first is None or last is None or self.current is first:
            self.fail("an expression")
        return self.text[first.start : last.end + 1]

    def expression(self, *stops: str) -> str:
        """Like ``slice``, for expressions, where ``<`` is an operator."""
        first, depth = self.current, 0
        last = first
        while (token := self.current) is not None:
            text = token.text.upper()
            quoted = token.token_type in {TokenType.STRING, TokenType.IDENTIFIER}
            if depth == 0 and not quoted and (text in {",", ")"} or text in stops):
                break
            if not quoted:
                depth += (text in {"(", "["}) - (text in {")", "]"})
            last = token
            self.at += 1
        if first is None or last is None or self.current is first:
            self.fail("an expression")
        return self.text[first.start : last.end + 1]

    def nested(self, text: str) -> st.Statement:
        """Return the statement of a text within this one."""
        raise NotImplementedError


def distribution(reader: TokenReader) -> TableDistribution:
    """Read the clause behind DISTRIBUTED."""
    kind, columns, buckets = None, (), None
    if reader.words("BY"):
        if reader.word() in {"HASH", "RANGE"}:
            kind = reader.word()
            reader.at += 1
        columns = reader.listed(reader.name)
    if reader.words("INTO"):
        token = reader.current
        if token is None or token.token_type != TokenType.NUMBER:
            reader.fail("a number of buckets")
        buckets = int(token.text)
        reader.at += 1
        reader.need("BUCKETS")
    return TableDistribution(kind, columns, buckets)


def untokenized(text: str, error: TokenError) -> str:
    """Return the message for a text that is cut off in a literal or a name."""
    for quote, what in (("'", "text"), ("`", "name in backticks"), ('"', "name in double quotes")):
        if text.count(quote) % 2:
            return f"SQL parse failed. A {what} has no closing {quote} in: {text.strip()[:200]}"
    if text.count("/*") > text.count("*/"):
        return f"SQL parse failed. A comment has no closing */ in: {text.strip()[:200]}"
    return f"SQL parse failed. {error}"
