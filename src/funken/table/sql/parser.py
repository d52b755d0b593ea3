"""From text to statements: a script is split, the first words of a statement choose its grammar.

Queries go to sqlglot (``dialect.py``); everything else is read here, over sqlglot's tokens. The text of a query keeps its
place in the statement, so that positions in errors are those of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from funken.table.sql import statements as st
from funken.table.sql.ddl import alter, create, drop, replace_table
from funken.table.sql.reader import BLANK, FOREIGN, TokenReader, near_word, untokenized

try:
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError, TokenError
    from sqlglot.tokenizer_core import TokenType

    from funken.table.sql.dialect import Flink
    from funken.table.sql.doubts import warn_of_doubts
    from funken.table.sql.refusals import check_forms, check_nulls
except ImportError as error:  # the extra is missing
    raise st.InvalidStatement("SQL texts need sqlglot: pip install 'funken[sql]'.") from error

_SCRIPT = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|(?:--|//)[^\n]*|/\*.*?\*/|;|[A-Za-z_][\w$]*|\s+|.", re.DOTALL)
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
    return re.sub(r"(?:--|//)[^\n]*|/\*(?!\+).*?\*/|\s+", "", text, flags=re.DOTALL)


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
    check_forms(tree)
    check_nulls(tree)
    warn_of_doubts(tree)
    return tree


def _sqlglot(text: str, into: Any = None, wrap: bool = False) -> Any:
    source = f"SELECT {text}" if wrap else text
    try:
        trees = Flink().parse(source)
    except TokenError as error:
        raise st.InvalidStatement(untokenized(text, error)) from error
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


def _message(error: ParseError, shift: int) -> str:
    if not error.errors:
        return f"SQL parse failed. {error}"
    first = error.errors[0]
    word = first.get("highlight") or ""
    line, column = first.get("line") or 1, (first.get("col") or 1) - max(len(word) - 1, 0)
    column -= shift if line == 1 else 0
    before = (first.get("start_context") or "").rstrip()
    remedy = ""
    if word == '"':
        remedy = " Text is in single quotes, as in 'text'; a name in backticks."
    elif before.endswith('"'):
        remedy = f" Text is in single quotes, '{word}'; a name in backticks, `{word}`."
    elif "TABLESAMPLE" in (word.upper(), before.upper()[-11:]):
        remedy = " TABLESAMPLE is not supported: WHERE RAND() < 0.1 keeps about a tenth of the rows."
    elif before.endswith("=") and word == "=":
        return f'SQL parse failed. Encountered "==" at line {line}, column {max(column - 1, 1)}. SQL compares with a single =.'
    elif before.upper().endswith("SELECT TOP"):
        remedy = f" Write LIMIT {word} at the end of the query instead."
    elif word.upper() in FOREIGN:
        remedy = FOREIGN[word.upper()]
    elif meant := _misspelt(before, word):
        remedy = meant
    elif before.upper().endswith("INTERVAL") and not word.startswith("'"):
        remedy = f" The value of an interval is in quotes: INTERVAL '{word}' SECOND."
    cause = _plain(str(first.get("description") or ""))
    if word.upper() in _QUERIES - {"("}:
        remedy = f"{remedy} Another statement begins behind a semicolon."
    return f'SQL parse failed. Encountered "{word}" at line {line}, column {max(column, 1)}. {cause}.{remedy}'


def _plain(cause: str) -> str:
    """Return the cause of an error without the names of the parser's own objects.

    >>> _plain("Expected table name but got <Token token_type: 1, text: ,>")
    'Expected table name'
    """
    if re.match(r"Required keyword: '(\w+)' missing for", cause):
        return "Expected another operand"
    if "<class " in cause:
        return "A part is missing here, or a word of SQL is taken for a name: write such a name in backticks"
    return cause.split(" but got <Token", maxsplit=1)[0]


_CLAUSES = (
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "JOIN", "LEFT", "RIGHT", "INNER", "OUTER", "UNION",
    "VALUES", "DISTINCT", "BETWEEN",
)  # fmt: skip
"""Words of a query that are guessed."""


_BEFORE_NAMES = {"FROM", "JOIN", "INTO", "TABLE", "AS", ","}


def _misspelt(before: str, word: str) -> str:
    """Return the guess for a word of SQL that is misspelt where a query cannot be read, or right before."""
    words = ["", "", *before.split(), word]
    for previous, each in (words[-3:-1], words[-2:]):
        if previous.upper() in _BEFORE_NAMES:
            continue
        if near := near_word(each, _CLAUSES):
            return f" Did you mean {near} instead of {each}?"
    return ""


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
            partition = self.partition()
        columns = None
        if self.word() == "(" and self.word(1) not in _QUERIES:
            columns = self.listed(lambda: ".".join(self.path()))
        if self.words("PARTITION"):
            partition = self.partition()
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
        if not inserts:
            raise st.InvalidStatement("SQL parse failed. A statement set has no INSERT between BEGIN and END.")
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
        for kind in ("TABLE", "VIEW", "CATALOG", "MODEL"):
            if self.words("CREATE", kind):
                return st.Show(f"CREATE {kind}", self.path(), text=self.text)
        for what in _SHOWN:
            if self.words(*what.split()):
                break
        else:
            self.fail("what to show: " + ", ".join(_SHOWN))
        path: st.Path = ()
        partition: st.Options = ()
        if what == "PARTITIONS":
            path = self.path()
            if self.words("PARTITION"):
                partition = self.partition()
        elif self.words("FROM") or self.words("IN"):
            path = self.path()
        negated = self.words("NOT")
        like, folded = None, False
        if self.word() in {"LIKE", "ILIKE"}:
            folded = self.word() == "ILIKE"
            self.at += 1
            like = self.string()
        return st.Show(what, path, like, negated, folded, partition, text=self.text)

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

    def analyze(self) -> NoReturn:
        """Refuse ANALYZE TABLE."""
        raise st.InvalidStatement(
            "ANALYZE TABLE is not supported: the planner asks tables themselves for their sizes. Leave the statement out."
        )

    def call(self) -> NoReturn:
        """Refuse CALL."""
        raise st.InvalidStatement("CALL is not supported: no catalog has procedures. SHOW FUNCTIONS lists functions.")

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

    def replace(self) -> st.Statement:
        """Read REPLACE TABLE."""
        return replace_table(self)

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
    "REPLACE": StatementReader.replace,
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
