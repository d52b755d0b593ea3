"""From text to statements: a script is split, the first words of a statement choose its grammar.

Queries go to sqlglot (``dialect.py``); everything else is read here, over sqlglot's tokens. The text of a query keeps its
place in the statement, so that positions in errors are those of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from funken.table.catalog import TableDistribution
from funken.table.sql import statements as st

# ---- Reads the tokens of a statement one by one, with errors that say where.


try:
    from sqlglot.errors import TokenError
    from sqlglot.tokenizer_core import Token, TokenType

    from funken.table.sql.dialect import Flink
except ImportError as error:  # the extra is missing
    raise st.InvalidStatement("SQL texts need sqlglot: pip install 'funken[sql]'.") from error

BLANK = re.compile(r"[^\n]")


class TokenReader:
    """Reads the tokens of one statement."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.tokens: Sequence[Token] = Flink().tokenize(text)
        except TokenError as error:
            raise st.InvalidStatement(_untokenized(text, error)) from error
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
        raise st.InvalidStatement(
            f'SQL parse failed. Encountered "{token.text}" at line {line}, column {column}. Expected {expected}.'
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
            self.fail("a name")
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
            self.fail("a text in quotes")
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
            self.need(")")
        return tuple(found)

    def options(self) -> st.Options:
        """Read ``('key' = 'value', ..)``."""

        def option() -> tuple[str, str]:
            key = self.string()
            self.need("=")
            return key, self.string()

        return self.listed(option)

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


# ---- The grammars of CREATE, DROP and ALTER.


_TYPE_ENDS = ("PRIMARY", "PRIMARY KEY", "UNIQUE", "CONSTRAINT", "COMMENT", "METADATA", "FIRST", "AFTER")


def create(reader: TokenReader) -> st.Statement:
    """Read a CREATE statement."""
    reader.need("CREATE")
    replace = reader.words("OR", "REPLACE")
    temporary = reader.words("TEMPORARY")
    system = temporary and reader.words("SYSTEM")
    if reader.words("TABLE"):
        return _table(reader, temporary, replace)
    if reader.words("VIEW"):
        return _view(reader, temporary, replace)
    if reader.words("FUNCTION"):
        return _function(reader, temporary, system)
    if reader.words("DATABASE"):
        missing = reader.words("IF", "NOT", "EXISTS")
        path = reader.path()
        comment = reader.string() if reader.words("COMMENT") else None
        return st.CreateDatabase(
            path, missing, comment, reader.options() if reader.words("WITH") else (), text=reader.text
        )
    if reader.words("CATALOG"):
        missing = reader.words("IF", "NOT", "EXISTS")
        name = reader.name()
        comment = reader.string() if reader.words("COMMENT") else None
        options = reader.options() if reader.words("WITH") else ()
        return st.CreateCatalog(name, options, missing, comment, text=reader.text)
    if reader.words("MODEL"):
        return _model(reader, temporary)
    for word in ("MATERIALIZED", "CONNECTION"):
        if reader.word() == word:
            raise st.InvalidStatement(f"CREATE {word} is not supported. Use a table and an INSERT, or options in WITH.")
    reader.fail("TABLE, VIEW, FUNCTION, DATABASE, CATALOG or MODEL")


def _table(reader: TokenReader, temporary: bool, replace: bool) -> st.Statement:
    missing = reader.words("IF", "NOT", "EXISTS")
    path = reader.path()
    parts = definition(reader) if reader.word() == "(" else {}
    if reader.words("COMMENT"):
        parts["comment"] = reader.string()
    if reader.words("DISTRIBUTED"):
        parts["distribution"] = distribution(reader)
    if reader.words("PARTITIONED", "BY"):
        parts["partition_keys"] = reader.listed(reader.name)
    if reader.words("DISTRIBUTED"):
        parts["distribution"] = distribution(reader)
    if reader.words("WITH"):
        parts["options"] = reader.options()
    like = query = None
    if reader.words("LIKE"):
        source = reader.path()
        like = st.LikeClause(source, _like_choices(reader) if reader.words("(") else ())
    elif reader.words("AS"):
        inner = reader.nested(reader.rest())
        assert isinstance(inner, st.Query)
        query = inner.tree
    table = st.DeclaredTable(**parts)
    return st.CreateTable(path, table, temporary, missing, replace, like, query, text=reader.text)


def _like_choices(reader: TokenReader) -> tuple[tuple[str, str], ...]:
    found = []
    while not reader.words(")"):
        strategy, feature = reader.word(), reader.word(1)
        if strategy not in {"INCLUDING", "EXCLUDING", "OVERWRITING"}:
            reader.fail("INCLUDING, EXCLUDING or OVERWRITING")
        if feature not in {
            "ALL",
            "CONSTRAINTS",
            "DISTRIBUTION",
            "PARTITIONS",
            "GENERATED",
            "OPTIONS",
            "WATERMARKS",
            "METADATA",
        }:
            reader.at += 1
            reader.fail("what of the table")
        found.append((feature, strategy))
        reader.at += 2
    return tuple(found)


def definition(reader: TokenReader) -> dict[str, Any]:
    """The list of columns, watermarks and constraints, in parentheses."""
    parts: dict[str, Any] = {}
    columns: list[st.ColumnDefinition] = []

    def item() -> None:
        if reader.words("WATERMARK", "FOR"):
            name = ".".join(reader.path())
            reader.need("AS")
            if "watermark" in parts:
                raise st.InvalidStatement("Multiple WATERMARK statements is not supported yet.")
            parts["watermark"] = (name, reader.expression())
        elif reader.word() == "CONSTRAINT" or reader.word() in {"PRIMARY", "PRIMARY KEY", "UNIQUE"}:
            _constraint(reader, parts, None)
        else:
            columns.append(column(reader, parts))

    if not reader.listed(item):
        reader.at -= 1
        reader.fail("a column")
    parts["columns"] = tuple(columns)
    return parts


def _constraint(reader: TokenReader, parts: dict[str, Any], on_column: str | None) -> None:
    name = reader.name() if reader.words("CONSTRAINT") else None
    if reader.words("UNIQUE"):
        raise st.InvalidStatement("UNIQUE constraint is not supported yet.")
    reader.need("PRIMARY", "KEY")
    if "primary_key" in parts:
        raise st.InvalidStatement("Duplicate primary key definition")
    parts["primary_key"] = (on_column,) if on_column is not None else reader.listed(reader.name)
    parts["key_name"] = name
    if not reader.words("NOT", "ENFORCED"):
        raise st.InvalidStatement(
            "A PRIMARY KEY is not enforced: no row is checked, the key says which rows are versions of one another. Write "
            "PRIMARY KEY (..) NOT ENFORCED."
        )


def column(reader: TokenReader, parts: dict[str, Any]) -> st.ColumnDefinition:
    """Read the definition of a column."""
    token = reader.current
    line, place = reader.place(token) if token is not None else (0, 0)
    name = reader.name()
    found: dict[str, Any] = {"name": name, "line": line, "column": place}
    if reader.words("AS"):
        found["expression"] = reader.expression("COMMENT", "FIRST", "AFTER")
    elif reader.word() not in {",", ")", "COMMENT"}:
        found["type_text"] = reader.slice(*_TYPE_ENDS)
        if reader.words("METADATA"):
            found["metadata"] = True
            if reader.words("FROM"):
                found["metadata_key"] = reader.string()
            found["virtual"] = reader.words("VIRTUAL")
        if reader.word() in {"CONSTRAINT", "PRIMARY", "PRIMARY KEY", "UNIQUE"}:
            _constraint(reader, parts, name)
    if reader.words("COMMENT"):
        found["comment"] = reader.string()
    return st.ColumnDefinition(**found)


def _view(reader: TokenReader, temporary: bool, replace: bool) -> st.Statement:
    missing = reader.words("IF", "NOT", "EXISTS")
    path = reader.path()

    def name() -> tuple[str, str | None]:
        return reader.name(), reader.string() if reader.words("COMMENT") else None

    columns = reader.listed(name) if reader.word() == "(" else ()
    comment = reader.string() if reader.words("COMMENT") else None
    reader.need("AS")
    text = reader.rest()
    inner = reader.nested(text)
    if not isinstance(inner, st.Query):
        raise st.InvalidStatement("CREATE VIEW needs a query behind AS.")
    return st.CreateView(
        path, inner.tree, text.strip(), columns, comment, temporary, missing, replace, text=reader.text
    )


def _function(reader: TokenReader, temporary: bool, system: bool) -> st.Statement:
    missing = reader.words("IF", "NOT", "EXISTS")
    return _function_body(reader, reader.path(), temporary, system, missing)


def _function_body(
    reader: TokenReader, path: st.Path, temporary: bool, system: bool, missing: bool, changes: bool = False
) -> st.Statement:
    reader.need("AS")
    target = reader.string()
    language = "JAVA"
    if reader.words("LANGUAGE"):
        language = reader.word()
        reader.at += 1
    resources = []
    if reader.words("USING"):
        while True:
            reader.at += 1  # JAR, ARTIFACT, FILE, ARCHIVE
            resources.append(reader.string())
            if not reader.words(","):
                break
    options = reader.options() if reader.words("WITH") else ()
    return st.CreateFunction(
        path, target, language, temporary, system, missing, tuple(resources), options, changes, text=reader.text
    )


def _model(reader: TokenReader, temporary: bool) -> st.Statement:
    missing = reader.words("IF", "NOT", "EXISTS")
    path = reader.path()
    columns: dict[str, tuple[st.ColumnDefinition, ...]] = {"INPUT": (), "OUTPUT": ()}
    for side in columns:
        if reader.words(side):
            columns[side] = reader.listed(lambda: column(reader, {}))
    comment = reader.string() if reader.words("COMMENT") else None
    reader.need("WITH")
    options = reader.options()
    inputs, outputs = columns["INPUT"], columns["OUTPUT"]
    return st.CreateModel(path, inputs, outputs, options, comment, temporary, missing, text=reader.text)


def drop(reader: TokenReader) -> st.Statement:
    """Read a DROP statement."""
    reader.need("DROP")
    temporary = reader.words("TEMPORARY")
    system = temporary and reader.words("SYSTEM")
    for kind in ("TABLE", "VIEW", "FUNCTION", "DATABASE", "CATALOG", "MODEL"):
        if reader.words(kind):
            break
    else:
        reader.fail("TABLE, VIEW, FUNCTION, DATABASE, CATALOG or MODEL")
    missing = reader.words("IF", "EXISTS")
    path = reader.path()
    cascade = reader.words("CASCADE")
    reader.words("RESTRICT")
    return st.Drop(kind, path, temporary, system, missing, cascade, text=reader.text)


def alter(reader: TokenReader) -> st.Statement:
    """Read an ALTER statement."""
    reader.need("ALTER")
    temporary = reader.words("TEMPORARY")
    system = temporary and reader.words("SYSTEM")
    for kind in ("TABLE", "VIEW", "FUNCTION", "DATABASE", "CATALOG", "MODEL"):
        if reader.words(kind):
            break
    else:
        reader.fail("TABLE, VIEW, FUNCTION, DATABASE, CATALOG or MODEL")
    missing = reader.words("IF", "EXISTS")
    path = reader.path()
    base: dict[str, Any] = {"kind": kind, "path": path, "if_exists": missing, "text": reader.text}
    if kind == "CATALOG" and reader.words("COMMENT"):
        return st.Alter(action="COMMENT", comment=reader.string(), **base)
    if kind == "FUNCTION":
        return _function_body(reader, path, temporary, system, missing, changes=True)
    if kind == "VIEW" and reader.words("AS"):
        text = reader.rest()
        inner = reader.nested(text)
        if not isinstance(inner, st.Query):
            raise st.InvalidStatement("ALTER VIEW needs a query behind AS.")
        return st.Alter(action="AS", query_text=text.strip(), query=inner.tree, **base)
    if reader.words("RENAME"):
        if reader.words("TO"):
            return st.Alter(action="RENAME", new_path=reader.path(), **base)
        old = reader.name()
        reader.need("TO")
        return st.Alter(action="RENAME COLUMN", columns=(old, reader.name()), **base)
    if reader.words("SET"):
        return st.Alter(action="SET", options=reader.options(), **base)
    if reader.words("RESET"):
        return st.Alter(action="RESET", keys=reader.listed(reader.string), **base)
    for action in ("ADD", "MODIFY"):
        if reader.words(action):
            return _alter_columns(reader, action, base)
    if reader.words("DROP"):
        return _alter_drop(reader, base)
    reader.fail("RENAME, SET, RESET, ADD, MODIFY or DROP")


def _alter_columns(reader: TokenReader, action: str, base: dict[str, Any]) -> st.Statement:
    parts: dict[str, Any] = {}
    columns: list[st.ColumnDefinition] = []
    positions: list[tuple[str, str | None]] = []

    def item() -> None:
        if reader.words("WATERMARK", "FOR"):
            name = ".".join(reader.path())
            reader.need("AS")
            parts["watermark"] = (name, reader.expression())
        elif reader.words("DISTRIBUTION") or reader.words("DISTRIBUTED"):
            parts["distribution"] = distribution(reader)
        elif reader.word() in {"CONSTRAINT", "PRIMARY", "PRIMARY KEY", "UNIQUE"}:
            _constraint(reader, parts, None)
        else:
            reader.words("COLUMN")
            columns.append(column(reader, parts))
            if reader.words("FIRST"):
                positions.append((columns[-1].name, None))
            elif reader.words("AFTER"):
                positions.append((columns[-1].name, reader.name()))

    if reader.word() == "(":
        reader.listed(item)
    else:
        item()
    table = st.DeclaredTable(columns=tuple(columns), **parts)
    return st.Alter(action=action, definition=table, positions=tuple(positions), **base)


def _alter_drop(reader: TokenReader, base: dict[str, Any]) -> st.Statement:
    if reader.words("PRIMARY", "KEY"):
        return st.Alter(action="DROP PRIMARY KEY", **base)
    if reader.words("CONSTRAINT"):
        return st.Alter(action="DROP PRIMARY KEY", keys=(reader.name(),), **base)
    if reader.words("WATERMARK"):
        return st.Alter(action="DROP WATERMARK", **base)
    if reader.words("DISTRIBUTION"):
        return st.Alter(action="DROP DISTRIBUTION", **base)
    reader.words("COLUMN")
    columns = reader.listed(reader.name) if reader.word() == "(" else (reader.name(),)
    return st.Alter(action="DROP COLUMN", columns=columns, **base)


try:
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError, TokenError
    from sqlglot.tokenizer_core import TokenType

    from funken.table.sql.dialect import Flink
except ImportError as error:  # the extra is missing
    raise st.InvalidStatement("SQL texts need sqlglot: pip install 'funken[sql]'.") from error

_SCRIPT = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|;|[A-Za-z_][\w$]*|\s+|.", re.DOTALL)
_SETS = re.compile(r"\s*(?:EXECUTE|EXPLAIN|COMPILE|BEGIN)\b.*?\bSTATEMENT\s+SET\b", re.IGNORECASE | re.DOTALL)


def split(script: str) -> list[str]:
    """Split a script at semicolons outside of quotes, comments and statement sets; blank parts are left out.

    A part begins with the blank lines that make its line numbers those of the script.
    """
    found: list[str] = []
    start = 0
    in_set = first = False
    words: list[str] = []
    for match in _SCRIPT.finditer(script):
        token = match.group()
        if token == ";":
            if in_set and words and words[-1] != "END":
                words = []
                continue
            found.append(script[start : match.start()])
            start, in_set, words = match.end(), False, []
        elif token[0].isalpha():
            words.append(token.upper())
            if words[-2:] == ["STATEMENT", "SET"] and words[0] in {"EXECUTE", "EXPLAIN", "COMPILE", "BEGIN"}:
                in_set, first = True, True
            elif in_set and first and token.upper() == "BEGIN":
                first = False
                words = []
            elif in_set and token.upper() == "END" and len(words) > 1:
                words[-1] = "CASE_END"  # the end of a CASE inside of an INSERT
        elif not token.isspace() and not token.startswith(("--", "/*")):
            words.append("")
    found.append(script[start:])
    result, lines = [], 0
    for part in found:
        lines_before = lines
        lines += part.count("\n")
        if _meaning(part):
            result.append("\n" * lines_before + part)
    return result


def _meaning(text: str) -> str:
    return re.sub(r"--[^\n]*|/\*(?!\+).*?\*/|\s+", "", text, flags=re.DOTALL)


def parse_script(script: str) -> list[st.Statement]:
    """Return the statements of a script."""
    return [parse(part) for part in split(script)]


def parse(text: str) -> st.Statement:
    """Return the one statement of a text; a semicolon at its end is allowed."""
    parts = split(text)
    if len(parts) != 1:
        raise st.InvalidStatement(
            f"Expected one statement, found {len(parts)}. Run them one by one, or use execute of a script."
        )
    return StatementReader(parts[0]).statement()


def parse_query(text: str) -> Any:
    """Return the tree of a query."""
    return _tree(text)


def parse_expression(text: str) -> Any:
    """Return the tree of an expression."""
    return _sqlglot(text, into=None, wrap=True)


def _tree(text: str) -> Any:
    tree = _sqlglot(text)
    if not isinstance(tree, exp.Query | exp.Values):
        raise st.InvalidStatement(f"SQL parse failed. Expected a query, found: {text.strip()[:60]}")
    return tree


def _sqlglot(text: str, into: Any = None, wrap: bool = False) -> Any:
    source = f"SELECT {text}" if wrap else text
    try:
        trees = Flink().parse(source)
    except TokenError as error:
        raise st.InvalidStatement(_untokenized(text, error)) from error
    except ParseError as error:
        raise st.InvalidStatement(_message(error, 7 if wrap else 0)) from error
    except SqlglotError as error:
        raise st.InvalidStatement(f"SQL parse failed. {error}") from error
    if len(trees) != 1 or trees[0] is None:
        raise st.InvalidStatement(f"SQL parse failed. Expected one statement in: {text.strip()[:60]}")
    if not wrap:
        return trees[0]
    (select,) = trees
    if not isinstance(select, exp.Select) or len(select.expressions) != 1 or len(_clauses(select)) > 1:
        raise st.InvalidStatement(f"SQL parse failed. Expected one expression in: {text.strip()[:60]}")
    return select.expressions[0]


def _clauses(select: Any) -> list[str]:
    return [name for name, value in select.args.items() if value and name not in {"kind", "hint"}]


def _untokenized(text: str, error: TokenError) -> str:
    """Return the message for a text that is cut off in a literal or a name."""
    for quote, what in (("'", "text"), ("`", "name in backticks"), ('"', "name in double quotes")):
        if text.count(quote) % 2:
            return f"SQL parse failed. A {what} has no closing {quote} in: {text.strip()[:200]}"
    return f"SQL parse failed. {error}"


def _message(error: ParseError, shift: int) -> str:
    if not error.errors:
        return f"SQL parse failed. {error}"
    first = error.errors[0]
    word = first.get("highlight") or ""
    line, column = first.get("line") or 1, (first.get("col") or 1) - max(len(word) - 1, 0)
    column -= shift if line == 1 else 0
    before = (first.get("start_context") or "").rstrip()
    remedy = ""
    if before.endswith('"'):
        remedy = f" Text is in single quotes, '{word}'; a name in backticks, `{word}`."
    elif before.upper().endswith("INTERVAL"):
        remedy = f" The value of an interval is in quotes: INTERVAL '{word}' SECOND."
    return f'SQL parse failed. Encountered "{word}" at line {line}, column {max(column, 1)}. {first.get("description")}.{remedy}'


_QUERIES = {"SELECT", "WITH", "VALUES", "TABLE", "("}
"""The words that a query begins with."""


class StatementReader(TokenReader):
    """Reads one statement."""

    def nested(self, text: str) -> st.Statement:
        """Return the statement of a text within this one."""
        return StatementReader(text).statement()

    # -- statements

    def statement(self) -> st.Statement:
        """Read the statement."""
        first = self.word()
        if first in _QUERIES:
            return st.Query(_tree(self.rest()), text=self.text)
        reader = _STATEMENTS.get(first)
        if reader is None:
            self.fail(f"one of {', '.join(['SELECT', 'WITH', 'VALUES', 'TABLE', *_STATEMENTS])}")
        found = reader(self)
        self.end()
        return found

    def insert(self) -> st.Insert:
        """Read INSERT."""
        self.need("INSERT")
        overwrite = self.words("OVERWRITE")
        if overwrite:
            self.words("TABLE")
        else:
            self.need("INTO")
            self.words("TABLE")
        target = self.path()
        options = self.hint_options()
        partition: st.Options = ()
        if self.words("PARTITION"):
            partition = self.listed(self.partition_value)
        columns = None
        if self.word() == "(" and self.word(1) not in _QUERIES:
            columns = self.listed(lambda: ".".join(self.path()))
        if self.words("PARTITION"):
            partition = self.listed(self.partition_value)
        return self.insert_query(target, columns, partition, overwrite, options)

    def insert_query(self, target: Any, columns: Any, partition: Any, overwrite: bool, options: Any) -> st.Insert:
        """Read the query of an INSERT, and ON CONFLICT behind it."""
        tokens = self.tokens
        conflict = None
        if len(tokens) >= 4:
            tail = [" ".join(token.text.upper().split()) for token in tokens[-4:]]
            if tail[:3] == ["ON", "CONFLICT", "DO"] and tail[3] in {"NOTHING", "ERROR", "DEDUPLICATE"}:
                conflict = tail[3]
                cut = tokens[-4].start
                rest = BLANK.sub(" ", self.text[: self.current.start if self.current else 0])
                query = rest + self.text[len(rest) : cut]
                self.at = len(tokens)
        if conflict is None:
            query = self.rest()
        return st.Insert(target, _tree(query), columns, partition, overwrite, conflict, options, text=self.text)

    def partition_value(self) -> tuple[str, str]:
        """Read ``key = value`` of PARTITION."""
        key = self.name()
        self.need("=")
        token = self.current
        if token is None:
            self.fail("a constant")
        self.at += 1
        return key, token.text

    def hint_options(self) -> st.Options:
        """Read an OPTIONS hint."""
        token = self.current
        if token is None or token.token_type != TokenType.HINT:
            return ()
        self.at += 1
        text = token.comments[0] if token.comments else ""
        inner = StatementReader(text)
        inner.need("OPTIONS")
        return inner.options()

    def statement_set(self) -> st.Statement:
        """Read the INSERTs of a statement set."""
        self.words("BEGIN")
        inserts = []
        while not self.words("END"):
            start = self.at
            depth = 0
            while (token := self.current) is not None and (token.text != ";" or depth):
                self.at += 1
            if self.current is None:
                self.fail("END")
            first, last = self.tokens[start], self.tokens[self.at - 1]
            text = BLANK.sub(" ", self.text[: first.start]) + self.text[first.start : last.end + 1]
            self.at += 1
            inserts.append(StatementReader(text).insert())
        return st.StatementSetBlock(tuple(inserts), text=self.text)

    def begin(self) -> st.Statement:
        """Read BEGIN STATEMENT SET."""
        self.need("BEGIN", "STATEMENT", "SET")
        self.words(";")
        if self.current is None:
            return st.ClientCommand("BEGIN STATEMENT SET", text=self.text)
        return self.statement_set()

    def execute(self) -> st.Statement:
        """Read EXECUTE."""
        self.need("EXECUTE")
        if self.words("STATEMENT", "SET"):
            return self.statement_set()
        if self.words("PLAN"):
            return st.ExecutePlan(self.string(), text=self.text)
        return StatementReader(self.rest()).statement()

    def explain(self) -> st.Statement:
        """Read EXPLAIN."""
        self.need("EXPLAIN")
        details: list[str] = []
        if not self.words("PLAN", "FOR"):
            known = {"ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"}
            while self.word() in known:
                details.append(self.word())
                self.at += 1
                self.words(",")
        if self.words("STATEMENT", "SET"):
            return st.Explain(self.statement_set(), tuple(details), text=self.text)
        return st.Explain(StatementReader(self.rest()).statement(), tuple(details), text=self.text)

    def compile(self) -> st.Statement:
        """Read COMPILE PLAN."""
        self.need("COMPILE")
        execute = self.words("AND", "EXECUTE")
        self.need("PLAN")
        file = self.string()
        if_not_exists = self.words("IF", "NOT", "EXISTS")
        self.need("FOR")
        inner = self.statement_set() if self.words("STATEMENT", "SET") else StatementReader(self.rest()).statement()
        return st.CompilePlan(file, inner, if_not_exists, execute, text=self.text)

    def describe(self) -> st.Statement:
        """Read DESCRIBE."""
        self.at += 1
        for kind in ("CATALOG", "DATABASE", "FUNCTION", "MODEL", "JOB"):
            if (self.word() == kind and self.word(1) not in {"", "."}) or (
                self.word() == kind and self.at + 1 < len(self.tokens)
            ):
                self.at += 1
                extended = self.words("EXTENDED")
                path = (self.string(),) if kind == "JOB" else self.path()
                return st.Describe(kind, path, extended, text=self.text)
        extended = self.words("EXTENDED")
        return st.Describe("TABLE", self.path(), extended, text=self.text)

    def show(self) -> st.Statement:
        """Read SHOW."""
        self.need("SHOW")
        for create in ("TABLE", "VIEW", "CATALOG", "MODEL"):
            if self.words("CREATE", create):
                return st.Show(f"CREATE {create}", self.path(), text=self.text)
        for what in _SHOWN:
            if self.words(*what.split()):
                break
        else:
            self.fail("what to show: " + ", ".join(_SHOWN))
        path: st.Path = ()
        if what == "PARTITIONS":
            path = self.path()
            if self.words("PARTITION"):
                self.listed(self.partition_value)
        elif self.words("FROM") or self.words("IN"):
            path = self.path()
        negated = self.words("NOT")
        like, folded = None, False
        if self.word() in {"LIKE", "ILIKE"}:
            folded = self.word() == "ILIKE"
            self.at += 1
            like = self.string()
        return st.Show(what, path, like, negated, folded, text=self.text)

    def use(self) -> st.Statement:
        """Read USE."""
        self.need("USE")
        if self.words("MODULES"):
            names = [self.name()]
            while self.words(","):
                names.append(self.name())
            return st.Use("MODULES", tuple(names), text=self.text)
        if self.words("CATALOG"):
            return st.Use("CATALOG", (self.name(),), text=self.text)
        return st.Use("DATABASE", self.path(), text=self.text)

    def set_option(self) -> st.Statement:
        """Read SET."""
        self.need("SET")
        if self.current is None:
            return st.SetOption(text=self.text)
        match = re.match(r"(?:'((?:[^']|'')*)'|([\w.\-$]+))\s*=\s*(.*?)\s*$", self.rest().strip(), re.I | re.S)
        if match is None:
            self.fail("SET 'key' = 'value'")
        key = match.group(1) if match.group(1) is not None else match.group(2)
        value = match.group(3)
        if value.startswith("'") and value.endswith("'") and len(value) > 1:
            value = value[1:-1].replace("''", "'")
        return st.SetOption(key.replace("''", "'"), value, text=self.text)

    def reset_option(self) -> st.Statement:
        """Read RESET."""
        self.need("RESET")
        if self.current is None:
            return st.ResetOption(text=self.text)
        match = re.match(r"(?:'((?:[^']|'')*)'|([\w.\-$]+))\s*$", self.rest().strip(), re.I)
        if match is None:
            self.fail("RESET 'key'")
        return st.ResetOption(match.group(1) if match.group(1) is not None else match.group(2), text=self.text)

    def module(self) -> st.Statement:
        """Read LOAD MODULE or UNLOAD MODULE."""
        action = self.word()
        self.at += 1
        self.need("MODULE")
        name = self.name()
        return st.Module(action, name, self.options() if self.words("WITH") else (), text=self.text)

    def jar(self) -> st.Statement:
        """Read ADD JAR or REMOVE JAR."""
        action = self.word()
        self.at += 1
        self.need("JAR")
        return st.Jar(action, self.string(), text=self.text)

    def analyze(self) -> st.Statement:
        """Read ANALYZE TABLE."""
        self.need("ANALYZE", "TABLE")
        path = self.path()
        self.at = len(self.tokens)
        return st.AnalyzeTable(path, text=self.text)

    def call(self) -> st.Statement:
        """Read CALL."""
        self.need("CALL")
        path = self.path()
        return st.CallProcedure(path, self.rest().strip(), text=self.text)

    def stop(self) -> st.Statement:
        """Read STOP JOB."""
        self.need("STOP", "JOB")
        job = self.string()
        savepoint = self.words("WITH", "SAVEPOINT")
        return st.StopJob(job, savepoint, self.words("WITH", "DRAIN"), text=self.text)

    def truncate(self) -> st.Statement:
        """Read TRUNCATE TABLE."""
        self.need("TRUNCATE", "TABLE")
        return st.TruncateTable(self.path(), text=self.text)

    def refused(self) -> NoReturn:
        """Refuse DELETE and UPDATE."""
        raise st.InvalidStatement(
            f"{self.word()} is not supported: no connector here changes rows in place. Use INSERT with a primary key."
        )

    def client(self) -> st.Statement:
        """Read a command of the client."""
        command = self.word()
        self.at += 1
        argument = self.string() if command == "SOURCE" else ""
        return st.ClientCommand("QUIT" if command == "EXIT" else command, argument, text=self.text)

    def create(self) -> st.Statement:
        """Read CREATE."""
        return create(self)

    def drop(self) -> st.Statement:
        """Read DROP."""
        return drop(self)

    def alter(self) -> st.Statement:
        """Read ALTER."""
        return alter(self)


_SHOWN = (
    "CURRENT CATALOG",
    "CURRENT DATABASE",
    "CATALOGS",
    "DATABASES",
    "TABLES",
    "VIEWS",
    "MATERIALIZED TABLES",
    "USER FUNCTIONS",
    "FUNCTIONS",
    "FULL MODULES",
    "MODULES",
    "COLUMNS",
    "PARTITIONS",
    "PROCEDURES",
    "JARS",
    "JOBS",
    "MODELS",
)
_STATEMENTS: dict[str, Callable[[StatementReader], st.Statement]] = {
    "INSERT": StatementReader.insert,
    "EXECUTE": StatementReader.execute,
    "BEGIN": StatementReader.begin,
    "EXPLAIN": StatementReader.explain,
    "CREATE": StatementReader.create,
    "DROP": StatementReader.drop,
    "ALTER": StatementReader.alter,
    "DESCRIBE": StatementReader.describe,
    "DESC": StatementReader.describe,
    "SHOW": StatementReader.show,
    "USE": StatementReader.use,
    "SET": StatementReader.set_option,
    "RESET": StatementReader.reset_option,
    "LOAD": StatementReader.module,
    "UNLOAD": StatementReader.module,
    "ADD": StatementReader.jar,
    "REMOVE": StatementReader.jar,
    "COMPILE": StatementReader.compile,
    "ANALYZE": StatementReader.analyze,
    "CALL": StatementReader.call,
    "STOP": StatementReader.stop,
    "TRUNCATE": StatementReader.truncate,
    "DELETE": StatementReader.refused,
    "UPDATE": StatementReader.refused,
    "QUIT": StatementReader.client,
    "EXIT": StatementReader.client,
    "CLEAR": StatementReader.client,
    "HELP": StatementReader.client,
    "SOURCE": StatementReader.client,
    "END": StatementReader.client,
}


def tables_in(tree: Any) -> Iterator[tuple[str, ...]]:
    """The paths of all tables that a query names."""
    for table in tree.find_all(exp.Table):
        yield tuple(part.name for part in table.parts)
