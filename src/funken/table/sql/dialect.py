"""Flink's dialect of sqlglot: what queries and expressions may say, and a tree in which every call keeps its name.

sqlglot knows hundreds of functions of other systems, with their arities and argument orders. Here every call stays
``Anonymous(name, arguments)``, also those with a syntax of their own, whose words become ``Var`` arguments. Types stay
texts, which ``parse_type`` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
from sqlglot.tokenizer_core import TokenType


class TableOperand(exp.Expression):
    """``TABLE t PARTITION BY k ORDER BY o`` as an argument; ``this`` is a table or a sub-query."""

    arg_types: ClassVar = {"this": True, "partition": False, "order": False}


class ModelOperand(exp.Expression):
    """``MODEL m`` as an argument."""

    arg_types: ClassVar = {"this": True}


def signature(name: str, arguments: Iterable[Any], type_of: Callable[[Any], Any]) -> str:
    """Return a call as messages show it: arguments by their types, or by their kind where they are no expressions."""

    def shown(argument: Any) -> str:
        if isinstance(argument, exp.Kwarg):
            return f"{argument.this.name} => {shown(argument.expression)}"
        if isinstance(argument, TableOperand | ModelOperand):
            return type(argument).__name__.removesuffix("Operand").upper()
        return f"<{type_of(argument)}>"

    return f"{name}({', '.join(map(shown, arguments))})"


class MatchClause(exp.Expression):
    """MATCH_RECOGNIZE: ``this`` is the text between its parentheses."""

    arg_types: ClassVar = {"this": True, "alias": False}


class DefaultArgument(exp.Expression):
    """``DEFAULT`` in the place of an argument."""

    arg_types: ClassVar = {}


class TypeText(exp.Expression):
    """The text of a type."""

    arg_types: ClassVar = {"this": True}


def _call(name: str, *args: Any) -> Any:
    return exp.Anonymous(this=name, expressions=list(args))


def _needs_condition(join: exp.Join) -> bool:
    """Return True if a join has no condition, and is none that goes without: CROSS, NATURAL or APPLY."""
    applied = isinstance(join.this, exp.Lateral) and join.this.args.get("cross_apply") is not None
    return not applied and join.kind != "CROSS" and not any(map(join.args.get, ("on", "using", "method")))


class Flink(Dialect):
    """Names are case-sensitive and quoted by backticks; NULL sorts as the smallest value."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    NULL_ORDERING = "nulls_are_small"

    class Tokenizer(tokens.Tokenizer):
        """Backticks quote names, and hints may follow tables."""

        IDENTIFIERS: ClassVar = ["`"]
        QUOTES: ClassVar = ["'"]
        COMMENTS: ClassVar = ["--", "//", ("/*", "*/")]
        STRING_ESCAPES: ClassVar = ["'"]
        IDENTIFIER_ESCAPES: ClassVar = ["`"]
        HEX_STRINGS: ClassVar = [("x'", "'"), ("X'", "'")]
        UNICODE_STRINGS: ClassVar = [("U&'", "'"), ("u&'", "'")]
        VAR_SINGLE_TOKENS: ClassVar = {"$"}
        COMMANDS: ClassVar[set[Any]] = set()  # whose rest would be one token
        TOKENS_PRECEDING_HINT: ClassVar = {TokenType.SELECT, TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN}
        KEYWORDS: ClassVar = {
            **{
                word: token
                for word, token in tokens.Tokenizer.KEYWORDS.items()
                if word
                not in {
                    "COPY",
                    "CACHE",
                    "COMMENT",
                    "DESCRIBE",
                    "KILL",
                    "MODEL",
                    "PIVOT",
                    "UNPIVOT",
                    "TRUNCATE",
                    "SESSION",
                    "==",
                }
                and not word.startswith(("{%", "{{"))
                and token
                not in {
                    TokenType.STREAM,
                    TokenType.ARROW,
                    TokenType.DCOLON,
                    TokenType.QUALIFY,
                    TokenType.FORMAT,
                    TokenType.COMMAND,
                    TokenType.PRAGMA,
                    TokenType.OPERATOR,
                    TokenType.OVERLAPS,
                    TokenType.TABLE_SAMPLE,
                    TokenType.GLOB,
                    TokenType.ILIKE,
                    TokenType.RLIKE,
                    TokenType.SETTINGS,
                    TokenType.ASOF,
                    TokenType.ANTI,
                    TokenType.SEMI,
                    TokenType.VARIANT,
                    TokenType.JSON,
                    TokenType.JSONB,
                }
            },
            "MINUS": TokenType.EXCEPT,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
            "QUALIFY": TokenType.QUALIFY,
            "OVERLAPS": TokenType.OVERLAPS,
        }

    class Parser(parser.Parser):
        """Every call is anonymous, calls with a syntax of their own included."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar = {
            token: partial(_call, token.name)
            for token in (
                TokenType.CURRENT_DATE,
                TokenType.CURRENT_TIME,
                TokenType.CURRENT_TIMESTAMP,
                TokenType.LOCALTIME,
                TokenType.LOCALTIMESTAMP,
            )
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": lambda self: self._parse_case()}
        TYPE_TOKENS: ClassVar = {TokenType.DATE, TokenType.TIME, TokenType.TIMESTAMP}
        ID_VAR_TOKENS: ClassVar = parser.Parser.ID_VAR_TOKENS | {TokenType.QUALIFY} - {TokenType.MATCH_RECOGNIZE}
        TABLE_ALIAS_TOKENS: ClassVar = parser.Parser.TABLE_ALIAS_TOKENS - {TokenType.MATCH_RECOGNIZE, TokenType.QUALIFY}
        TABLE_POSTFIX_TOKENS: ClassVar = parser.Parser.TABLE_POSTFIX_TOKENS | {TokenType.HINT, TokenType.PARTITION_BY}
        SUPPORTS_OMITTED_INTERVAL_SPAN_UNIT: ClassVar = False
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            "CAST": lambda self: self._cast("CAST"),
            "TRY_CAST": lambda self: self._cast("TRY_CAST"),
            "CEIL": lambda self: self._rounded("CEIL"),
            "CEILING": lambda self: self._rounded("CEIL"),
            "FLOOR": lambda self: self._rounded("FLOOR"),
            "EXTRACT": lambda self: self._extract(),
            "OVERLAY": lambda self: self._worded("OVERLAY", "PLACING", "FROM", "FOR"),
            "POSITION": lambda self: self._position(),
            "SUBSTRING": lambda self: self._worded("SUBSTRING", "FROM", "FOR"),
            "TRIM": lambda self: self._trim(),
            "JSON_VALUE": lambda self: self._json("JSON_VALUE"),
            "JSON_QUERY": lambda self: self._json("JSON_QUERY"),
            "JSON_EXISTS": lambda self: self._json("JSON_EXISTS"),
            "JSON_OBJECT": lambda self: self._json_object("JSON_OBJECT"),
            "JSON_OBJECTAGG": lambda self: self._json_object("JSON_OBJECTAGG"),
            "JSON_ARRAY": lambda self: self._json_array("JSON_ARRAY"),
            "JSON_ARRAYAGG": lambda self: self._json_array("JSON_ARRAYAGG"),
        }
        LAMBDAS: ClassVar = {
            TokenType.FARROW: lambda self, names: self.expression(
                exp.Kwarg(this=exp.var(names[0].name), expression=self._parse_lambda())
            )
        }

        # -- what sqlglot lets pass

        def _parse_csv(self, parse_method: Any, sep: Any = TokenType.COMMA) -> Any:
            begin = self._index
            found = super()._parse_csv(parse_method, sep)
            if self._index > begin and self._prev.token_type == sep:
                self.raise_error("Expected an item behind the comma", self._prev)
            return found

        def _parse_id_var(self, any_token: bool = True, tokens: Any = None) -> Any:
            return None if self._curr.token_type == TokenType.STRING else super()._parse_id_var(any_token, tokens)

        def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
            first, found = self._curr, super()._parse_join(*args, **kwargs)
            if found is None and first.token_type == TokenType.COMMA:
                self.raise_error("Expected a table behind the comma", first)
            if found is not None and first.token_type != TokenType.COMMA and _needs_condition(found):
                self.raise_error("INNER, LEFT, RIGHT or FULL join requires a condition (ON or USING)", first)
            return found

        def _parse_set_operations(self, this: Any) -> Any:
            if self._curr and self._curr.text.upper() == "MINUS":
                self.raise_error("MINUS is no set operation here; write EXCEPT")
            return super()._parse_set_operations(this)

        def _parse_limit(self, *args: Any, **kwargs: Any) -> Any:
            found = super()._parse_limit(*args, **kwargs)
            if isinstance(found, exp.Limit) and found.args.get("offset") is not None:
                self.raise_error("LIMIT takes one number; write LIMIT 2 OFFSET 1")
            return found

        def _parse_cube_or_rollup(self, with_prefix: bool = False) -> Any:
            for token, kind in ((TokenType.CUBE, exp.Cube), (TokenType.ROLLUP, exp.Rollup)):
                if self._match(token):
                    return self.expression(kind(expressions=self._parse_wrapped_csv(self._parse_disjunction)))
            return None

        def _parse_grouping_set(self) -> Any:
            return self._parse_grouping_sets() or self._parse_cube_or_rollup() or self._parse_disjunction()

        def _parse_where(self, skip_where_token: bool = False) -> Any:
            if skip_where_token and self._prev.token_type != TokenType.WHERE:
                self.raise_error("Expected WHERE")
            return super()._parse_where(skip_where_token)

        def _parse_projections(self) -> Any:
            first, found = self._curr, super()._parse_projections()
            if not found[0]:
                self.raise_error("Expected an expression behind SELECT", first)
            return found

        # -- TABLE t, and rows of VALUES

        SUPPORTS_TABLE_QUERY: ClassVar = True
        VALUES_FOLLOWED_BY_PAREN: ClassVar = False

        def _parse_value(self, values: bool = True) -> Any:
            bare = self._curr.token_type != TokenType.L_PAREN
            found: Any = super()._parse_value(values)
            row = found.expressions[0] if bare and found is not None else None
            if isinstance(row, exp.Anonymous) and str(row.this).upper() == "ROW":
                found.set("expressions", row.expressions)
            return found

        # -- arguments

        def _parse_lambda(self, alias: bool = False) -> Any:
            if self._match(TokenType.DEFAULT):
                return self.expression(DefaultArgument())
            if self._curr.text.upper() == "MODEL" and self._next.token_type in self.ID_VAR_TOKENS:
                self._advance()
                return self.expression(ModelOperand(this=self._parse_table_parts(schema=True)))
            table: Any = None
            if self._curr.token_type == TokenType.TABLE and self._next.token_type != TokenType.L_PAREN:
                self._advance()
                table = self._parse_table_parts(schema=True)
            else:
                found = super()._parse_lambda(alias)
                if not isinstance(found, exp.Subquery | exp.Column) or self._curr.token_type != TokenType.PARTITION_BY:
                    return found
                table = found
            partition = None
            if self._match(TokenType.PARTITION_BY):
                partition = self._listed(self._parse_assignment)
            order = None
            if self._match(TokenType.ORDER_BY):
                order = self._listed(self._parse_ordered)
            return self.expression(TableOperand(this=table, partition=partition, order=order))

        def _listed(self, parse: Callable[[], Any]) -> list[Any]:
            """A list that stands in parentheses, or a single item."""
            if self._match(TokenType.L_PAREN):
                found: list[Any] = self._parse_csv(parse)
                self._match_r_paren()
                return found
            return [parse()]

        # -- functions with a syntax of their own

        def _type_text(self, stops: tuple[str, ...] = ()) -> Any:
            """The text of a type, which ends before a closing parenthesis, a comma, or one of the words."""
            start, depth = self._curr, 0
            last = start
            while self._curr:
                kind = self._curr.token_type
                closes = kind == TokenType.R_PAREN
                if depth == 0 and (closes or kind == TokenType.COMMA or self._curr.text.upper() in stops):
                    break
                depth += (kind in {TokenType.L_PAREN, TokenType.LT}) - (kind in {TokenType.R_PAREN, TokenType.GT})
                last = self._curr
                self._advance()
            if last is start and self._curr is start:
                self.raise_error("Expected a type")
            return self.expression(TypeText(this=self._find_sql(start, last)), start)

        def _cast(self, name: str) -> Any:
            value = self._parse_assignment()
            if not self._match(TokenType.ALIAS):
                self.raise_error("Expected AS")
            return _call(name, value, self._type_text())

        def _rounded(self, name: str) -> Any:
            args = self._parse_csv(self._parse_assignment)
            if self._match_text_seq("TO"):
                args.append(self._word())
            return _call(name, *args)

        def _word(self, expected: str = "Expected a word") -> Any:
            if self._index >= len(self._tokens) or not re.match(r"\w", self._curr.text):
                self.raise_error(expected)
            self._advance()
            return self.expression(exp.Var(this=self._prev.text.upper()), self._prev)

        def _extract(self) -> Any:
            unit = self._word()
            if not self._match(TokenType.FROM):
                self.raise_error("Expected FROM")
            return _call("EXTRACT", unit, self._parse_assignment())

        def _worded(self, name: str, *words: str) -> Any:
            """Arguments with words or commas between them."""
            args = [self._parse_bitwise()]
            while self._match(TokenType.COMMA) or self._match_texts(words):
                args.append(self._parse_bitwise())
            return _call(name, *args)

        def _position(self) -> Any:
            args = [self._parse_bitwise()]
            if not self._match(TokenType.IN):
                self.raise_error("Expected IN")
            args.append(self._parse_bitwise())
            if self._match(TokenType.FROM):
                args.append(self._parse_bitwise())
            return _call("POSITION", *args)

        def _trim(self) -> Any:
            side = self._word() if self._curr.text.upper() in {"BOTH", "LEADING", "TRAILING"} else exp.var("BOTH")
            if self._match(TokenType.FROM):
                return _call("TRIM", side, exp.Literal.string(" "), self._parse_bitwise())
            first = self._parse_bitwise()
            if self._match(TokenType.FROM):
                return _call("TRIM", side, first, self._parse_bitwise())
            return _call("TRIM", side, exp.Literal.string(" "), first)

        def _json(self, name: str) -> Any:
            """JSON_VALUE, JSON_QUERY, JSON_EXISTS: the clauses become named arguments."""
            args = [self._parse_assignment()]
            while self._match(TokenType.COMMA):
                args.append(self._parse_assignment())
            while not self._match(TokenType.R_PAREN, advance=False) and self._curr:
                args.append(self._json_clause())
            return _call(name, *args)

        def _json_clause(self) -> Any:
            if self._match_text_seq("RETURNING"):
                return self._named(
                    "returning", self._type_text(("NULL", "ERROR", "DEFAULT", "EMPTY", "WITH", "WITHOUT"))
                )
            if self._match_text_seq("WITHOUT"):
                self._match_text_seq("ARRAY")
                self._match_text_seq("WRAPPER")
                return self._named("wrapper", exp.var("WITHOUT_ARRAY"))
            if self._match_text_seq("WITH"):
                kind = "CONDITIONAL" if self._match_text_seq("CONDITIONAL") else "UNCONDITIONAL"
                self._match_text_seq("UNCONDITIONAL")
                self._match_text_seq("ARRAY")
                if not self._match_text_seq("WRAPPER"):
                    self.raise_error("Expected WRAPPER")
                return self._named("wrapper", exp.var(f"{kind}_ARRAY"))
            behavior: Any
            if self._match(TokenType.DEFAULT):
                behavior = self._parse_bitwise()
            elif self._match_text_seq("EMPTY"):
                behavior = exp.var("EMPTY " + self._word().name)
            else:
                behavior = self._word()
            if not self._match_text_seq("ON"):
                self.raise_error("Expected ON EMPTY or ON ERROR")
            return self._named(f"on_{self._word().name.lower()}", behavior)

        def _named(self, name: str, value: Any) -> Any:
            return self.expression(exp.Kwarg(this=exp.var(name), expression=value))

        def _json_object(self, name: str) -> Any:
            args: list[Any] = []
            while not self._match(TokenType.R_PAREN, advance=False) and not self._on_null(args):
                self._match_text_seq("KEY")
                args.append(self._parse_bitwise())
                if not self._match_text_seq("VALUE") and not self._match(TokenType.COLON):
                    self.raise_error("Expected VALUE")
                args.append(self._parse_assignment())
                self._match(TokenType.COMMA)
            return _call(name, *args)

        def _json_array(self, name: str) -> Any:
            args: list[Any] = []
            while not self._match(TokenType.R_PAREN, advance=False) and not self._on_null(args):
                args.append(self._parse_assignment())
                self._match(TokenType.COMMA)
            return _call(name, *args)

        def _on_null(self, args: list[Any]) -> bool:
            for word in ("NULL", "ABSENT"):
                if self._match_text_seq(word, "ON", "NULL"):
                    args.append(self._named("on_null", exp.var(word)))
                    return True
            return False

        def _parse_is(self, this: Any) -> Any:
            ahead = self._next if self._curr.token_type == TokenType.NOT else self._curr
            if ahead is None or ahead.text.upper() != "JSON":
                return super()._parse_is(this)
            negated = self._match(TokenType.NOT)
            self._advance()
            kinds = {"VALUE", "SCALAR", "ARRAY", "OBJECT"}
            kind = self._word() if self._curr and self._curr.text.upper() in kinds else exp.var("VALUE")
            return _call("IS NOT JSON" if negated else "IS JSON", this, self._named("kind", kind))

        def _parse_case(self) -> Any:
            if self._match(TokenType.DOT, advance=False):
                return super()._parse_case()
            operand, arms = self._parse_disjunction(), []
            while self._match(TokenType.WHEN):
                values = self._parse_csv(self._parse_disjunction)
                self._match(TokenType.THEN)
                result = self._parse_disjunction()
                arms += [self.expression(exp.If(this=value, true=result and result.copy())) for value in values]
            default = self._parse_disjunction() if self._match(TokenType.ELSE) else None
            if not self._match(TokenType.END):
                self.raise_error("Expected END after CASE", self._prev)
            return self.expression(exp.Case(this=operand, ifs=arms, default=default))

        def _parse_primary(self) -> Any:
            if self._match_pair(TokenType.DOT, TokenType.NUMBER):
                return exp.Literal.number(f".{self._prev.text}")
            found = super()._parse_primary()
            if isinstance(found, exp.Paren) and isinstance(found.this, exp.Sub) and self._at_unit():
                units = [self._unit()]
                if self._match_text_seq("TO"):
                    units.append(self._unit())
                unit = self._named("unit", exp.var(" TO ".join(units)))
                return _call("-", found.this.this, found.this.expression, unit)  # (a - b) DAY
            return found

        def _at_unit(self) -> bool:
            quoted = self._curr is None or self._curr.token_type == TokenType.IDENTIFIER
            return not quoted and self._curr.text.upper() in {"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"}

        def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
            found = super()._parse_function_call(*args, **kwargs)
            if found is not None and self._prev.token_type in self.NO_PAREN_FUNCTIONS:
                found.meta["word"] = self._prev.text  # Flink names a column of CURRENT_DATE by the word as written
            call: Any = found.this if isinstance(found, exp.Filter | exp.Window) else found
            last = call.expressions[-1] if isinstance(call, exp.Anonymous) and call.expressions else None
            if isinstance(last, exp.Order):  # f(x ORDER BY y) is f(x) WITHIN GROUP (ORDER BY y)
                last.replace(last.this)
                grouped = exp.WithinGroup(this=call.copy(), expression=exp.Order(expressions=last.expressions))
                found = grouped if call is found else call.replace(grouped) and found
            return self._closed(found)

        def _parse_bracket(self, *args: Any, **kwargs: Any) -> Any:
            return self._closed(super()._parse_bracket(*args, **kwargs))

        def _closed(self, found: Any) -> Any:
            """Note where the bracket behind a call is."""
            if found is not None and self._prev and self._prev.token_type in {TokenType.R_PAREN, TokenType.R_BRACKET}:
                found.meta.setdefault("closing", (self._prev.line, self._prev.col))
            return found

        # -- literals

        def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
            negative = self._next.token_type == TokenType.DASH
            if self._curr.token_type != TokenType.INTERVAL or not (
                negative or self._next.token_type in {TokenType.STRING, TokenType.PLUS}
            ):
                return None
            start = self._curr
            self._advance()
            self._match_set({TokenType.DASH, TokenType.PLUS})
            if not self._match(TokenType.STRING):
                self.raise_error("Expected the text of an interval")
            text = exp.Literal.string(("-" if negative else "") + self._prev.text)
            units = [self._unit("Expected the unit of the interval behind its text, as in INTERVAL '5' SECOND")]
            if self._match_text_seq("TO"):
                units.append(self._unit())
            return self.expression(exp.Interval(this=text, unit=exp.var(" TO ".join(units))), start)

        def _unit(self, expected: str = "Expected a unit of time") -> str:
            unit: str = self._word(expected).name
            if self._match(TokenType.L_PAREN):
                self._parse_csv(self._parse_primary)
                self._match_r_paren()
            return unit

        # -- tables

        def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
            found = super()._parse_table_parts(*args, **kwargs)
            if found is not None and self._curr.token_type == TokenType.HINT:
                found.meta["hint"] = self._parse_hint()
            return found

        def _parse_match_recognize(self) -> Any:
            if not self._match(TokenType.MATCH_RECOGNIZE):
                return None
            self._match_l_paren()
            start, depth = self._curr, 1
            last = start
            while self._curr:
                depth += (self._curr.token_type == TokenType.L_PAREN) - (self._curr.token_type == TokenType.R_PAREN)
                if depth == 0:
                    break
                last = self._curr
                self._advance()
            self._match_r_paren()
            return self.expression(
                MatchClause(this=self._find_sql(start, last), alias=self._parse_table_alias()), start
            )
