"""Random functions out of the subset that is traced: what kernels make of random records is what Python makes.

A case is a number: the same one gives the same function and records (``records.py``). The function is Python's source,
written by a grammar that knows types, so most of them are computed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from funken.columnar.expressions import NotVectorizable
from funken.columnar.tracing import trace
from funken.expr.types import Type, has_documents
from tests.support.traced.records import SHAPES, SPACE, random_records

_CONSTANTS = ("'a'", "','", "''", "'é'", "' '", "'b'")


_WRITTEN = {
    "int": """
        (<int> + <int>)  (<int> - <int>)  (<int> * <int>)  (<int> // <int>)  (<int> % <int>)  (<int> & <int>)  (<int> | 5)
        (<int> ^ <int>)  (<int> << 3)  (<int> >> 2)  (-<int>)  (~<int>)  abs(<int>)  min(<int>, <int>)  max(<int>, <int>, 3)
        len(<str>)  <str>.find('a')  <str>.count('a')  level(<int>)  sum((<int>, <int>))  (<int> % 7)  (<int> ** 2)
        round(<float>)
        int(<float>)  int(<str>)  (<int> + <bool>)  math.floor(<float>)  math.ceil(<float>)  len(<str>.split(','))
        WEIGHTS.get(<int>, <int>)  (<int> if <int> else <int>)  (<int> or <int>)  (<int> and <int>)  WEIGHTS[<int>]
        SIZES[<int>]  SIZES[<int> % len(SIZES)]
        len((<int>, <str>))  ord(<str>[0])  datetime.fromtimestamp(<int> % 100000, UTC).hour
        datetime.fromtimestamp(<int> % 10**9, tz=UTC).weekday()  datetime.fromtimestamp(<float>, UTC).minute
        <str>.rfind('a')  <str>.index('a')  len(<str>.split())  len(<str>.split('=', 1))  math.gcd(<int>, 12)
        (<int>).bit_length()  math.trunc(<float>)
        datetime.fromisoformat(moment(<int>)).day  datetime.fromtimestamp(<float>, UTC).year
        divmod(<int>, 7)[1]  sum(x * <int> for x in range(3))  sum(range(<int> % 5))  zlib.crc32(<str>.encode())
        TABLE.get(<int>, {}).get('size', <int>)  PAIRS.get(<str>, ('', 7))[1]  TABLE[<int> % 3]['size']  len(<str>.encode())""",
    "float": """
        (<float> + <float>)  (<float> - <int>)  (<float> * <float>)  (<float> / <float>)  (<int> / <int>)  (<float> % <float>)
        (<float> // 2.0)  abs(<float>)  min(<float>, <float>)  max(<float>, <float>)  (-<float>)  float(<int>)  round(<float>, 2)
        math.sqrt(<float>)  math.sqrt(abs(<int>))  math.sin(<float>)  math.hypot(<float>, <float>)  float(<str>)
        math.log(<float>)  (<float> ** 2)  (<float> / <float> if <float> else 0.0)  (<float> * <int>)
        (0.7 % <float>)  (<float> // <int>)  math.fabs(<float>)  math.degrees(<float>)  round(<float>, 1)  round(<float>, 0)""",
    "str": """
        (<str> + <str>)  <str>.lower()  <str>.upper()  <str>.strip()  <str>.lstrip()  <str>.title()  <str>.casefold()
        <str>.replace('a', <str>)  <str>[1:]  <str>[:2]  <str>[-2:]  <str>[<int>:]  <str>[0]  str(<int>)  str(<float>)
        f'{<plain int>}:{<plain str>}'  f'{<plain float>:.2f}'  f'{<plain int>:>6}|'  <str>.split(',')[0]  <str>.split('=')[-1]
        tidy(<str>)  tidy(<str>, end='!')  CODES.get(<str>, <str>)  <str>.removeprefix('a')  ','.join((<str>, <str>))
        <str>.partition('=')[2]  <str>.zfill(4)  DIGITS.sub('#', <str>)  max(<str>, <str>)  (<str> or <str>)  repr(<int>)
        <str>.strip('a')  <str>[::-1]  ' '.join(<str>.split())  str(<bool>)  PARTS[<int>]
        <str>.capitalize()  <str>.swapcase()  <str>.rstrip()  <str>.removesuffix('b')  <str>.rjust(4)  <str>.ljust(3, '-')
        <str>[-1]  re.sub('a', 'oo', <str>)  re.sub('[ab]', '', <str>)
        <str>.partition('=')[0]  <str>.partition(',')[1]  <str>.split('=', 1)[-1]  <str>.rsplit(',', 1)[0]
        datetime.fromisoformat(moment(<int>)).isoformat()  datetime.fromtimestamp(<int> % 10**10, UTC).strftime('%Y-%m-%d %H:%M')
        <str>.split()[0]  <str>[1:-1]  f'{<plain int>:05d}'  f'{<plain float>}'  f'{<plain float>:.0f}'  f'{<plain str>:>4}'
        ('%s:%d' % (<str>, <int>))  ('%5.2f|%-4s|%05d' % (<float>, <str>, <int>))  ('%s' % <str>)  ('%g%%' % <float>)
        '{}/{:>5}'.format(<str>, <int>)  '{1:.1f}{0}{x!r}'.format(<str>, <float>, x=<str>)  hex(<int>)  bin(<int>)
        json.dumps(<str>)  json.dumps({'a': <int>, 'b': <str>, 'c': <float>, 'd': <bool>, 'e': [<int>, None, <str>]})
        json.dumps([<float>, (<str>, <int>)], separators=(',', ':'), ensure_ascii=False)  TABLE[<int> % 3]['name']
        hashlib.md5(<str>.encode()).hexdigest()  <str>.encode('utf-8').decode()  TABLE.get(<int>, {}).get('name', <str>)
        PAIRS.get(<str>, ('x', 0))[0]  (<str> * 2)  ','.join(map(str, [<int>, <bool>]))""",
    "bool": """
        (<int> < <int>)  (<int> == <int>)  (<int> >= <int>)  (<float> < <int>)  (<float> != <float>)  (<int> <= <float>)
        (<str> < <str>)  (<str> == <str>)  (<int> in (1, 2, 3))  (<int> not in KNOWN)  <str>.startswith('a')
        <str>.endswith(('b', 'é'))  ('a' in <str>)  (<str> in <str>)  (<bool> and <bool>)  (<bool> or <bool>)  (not <bool>)
        <str>.isdigit()  (<int> is None)  (<str> is not None)  isinstance(<int>, int)  (type(<str>) is str)
        (CODES.get(<str>) is None)  (<str> in CODES)  (<str> in NAMES)  bool(<str>)  ((<int>, <str>) == (<int>, <str>))
        ((<int>, <str>) < (<int>, <str>))  (-3 < <int> <= 40)  any((<bool>, <bool>))  all([<bool>, <bool>])
        (DIGITS.search(<str>) is not None)  bool(DIGITS.fullmatch(<str>))  math.isnan(<float>)  (<bool> == <bool>)
        (<bool> ^ <bool>)  (<str> == <int>)  (<str> != None)  <str>.isalpha()  <str>.isalnum()  <str>.isupper()  <str>.istitle()
        <str>.isspace()  <str>.isascii()  math.isinf(<float>)  (<float>).is_integer()
        (datetime.fromtimestamp(<int> % 10**10, UTC) < datetime.fromtimestamp(<float>, UTC))
        (re.search('ab?', <str>) is None)  bool(re.search('a', <str>))
        (re.match('a', <str>) is not None)  bool(re.fullmatch('a', <str>))""",
}
_OF_LISTS = {
    "int": """
        len(<strs>)  len(<ints>)  sum(<ints>)  max(<ints>)  min(<ints>)  <ints>[<int>]  <ints>[0]  sum(1 for x in <strs> if x)
        sum(x % 7 for x in <ints>)  len([x for x in <ints> if x > <int> or x < 0])  max([x + <int> for x in <ints>])
        sum([len(x) for x in <strs>])  (sum(<ints>) if <ints> else -1)  sum(x > 3 for x in <ints>)
        len(set(<strs>))  len({x % 3 for x in <ints>})  len({(x, x > 2) for x in <ints>})
        max(<ints>, key=lambda x: (x % 3, -x))  min([x for x in <ints> if x > 1], key=lambda x: x % 5)""",
    "float": """
        sum(<floats>)  sum(<floats>, 0.0)  max(<floats>)  sum(x * <float> for x in <floats>)  <floats>[-1]
        (sum(<floats>) / len(<floats>) if <floats> else 0.0)  max(<floats>, key=lambda x: x)  min(<floats>, key=lambda x: -x)""",
    "str": """
        ','.join(<strs>)  <strs>[0]  <strs>[-1]  ' '.join([x.upper() for x in <strs>])  max(<strs>)  ''.join(sorted(<strs>))
        min(<strs>, key=lambda x: len(x))  max(<strs>, key=lambda x: (len(x), x))  ''.join(sorted({x[:1] for x in <strs>}))
        '-'.join(str(x) for x in <ints>)""",
    "bool": """
        (<str> in <strs>)  ('a' in <strs>)  (3 in <ints>)  any(x > <int> for x in <ints>)  all(x.isalpha() for x in <strs>)
        bool(<ints>)  (not <strs>)  any(<ints>)  all(<strs>)  any(x == <str> and x for x in <strs>)  isinstance(<ints>, list)""",
    "ints": """
        [len(x) for x in <strs>]  [x * 2 for x in <ints>]  [x for x in <ints> if x % 2]  [x if x > <int> else -x for x in <ints>]
        sorted(<ints>)  <ints>[1:]  list(x + <int> for x in <ints> if not x > 100)  [int(x) for x in <strs> if x.isdigit()]
        [sum(<ints>) + x for x in <ints>]  [sum(y for y in <ints> if y < x) for x in <ints>]  [WEIGHTS.get(x, 1) for x in <ints>]
        [max(x, y) for x, y in [(1, <int>), (<int>, 2)]]  list(<ints>)  sorted([*<ints>, <int>], reverse=True)[:3]
        (<ints> + [<int>])  <ints>[-2:]  sorted(<ints>, key=lambda x: (x % 3, -x))  [n + x for n, x in enumerate(<ints>)]
        list(map(len, <strs>))  list(filter(None, <ints>))  [x + <int> for x in range(<int> % 4)]  list(range(3, <int> % 9))
        [*<ints>, <int>, *<ints>][1:-1]  sorted(set(<ints>))  sorted({x // 2 for x in <ints>})""",
    "floats": "[x / 2 for x in <ints>]  [x + 0.5 for x in <floats>]  [float(x) for x in <ints> if x != <int>]  sorted(<floats>)"
    "  sorted([*<floats>, <float>], reverse=True)  (<floats> + [0.5])",
    "strs": """
        <str>.split(',')  <str>.split()  [x.strip() for x in <strs>]  [x + <str> for x in <strs> if len(x) > 1]  <strs>[:2]
        list(map(tidy, <strs>))  list(filter(lambda x: x > 'a', <strs>))
        sorted(<strs>)  [f'{x}:{x}' for x in <ints>]  [tidy(x) for x in <strs>]  [x[0] for x in <strs> if x]
        sorted(<strs>, key=lambda x: len(x), reverse=True)  [*<strs>, <str>]  (<strs> + ['z'])[:2]  sorted(<strs>, reverse=True)
        [f'{n}{x}' for n, x in enumerate(<strs>, 1)]  sorted(set(<strs>))""",
}
"""Expressions with lists in them, which are chosen in some cases only: others are not to become rare."""
"""Expressions of each type, two spaces apart; what stands in brackets is another one."""
_FORMS = {kind: re.split(r"\s{2,}", forms.strip()) for kind, forms in _WRITTEN.items()}
_LIST_FORMS = {kind: re.split(r"\s{2,}", forms.strip()) for kind, forms in _OF_LISTS.items()}
_HOLE = re.compile(r"<(int|float|str|bool|ints|floats|strs)>")
_PLAIN = re.compile(r"<plain (\w+)>")


class Difference(NamedTuple):
    """A case that went wrong."""

    case: int
    source: str
    fact: str


class FunctionFuzzer:
    """Makes cases, and tells those in which kernels and Python differ; ``counts`` says what became of all of them."""

    kind = ""
    """Begins the seed of each case."""

    def __init__(self, seed: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._seed = seed

    def run(self, case: int) -> Difference | None:
        """Run a case; return what is wrong."""
        dice = random.Random(f"{self.kind}{self._seed}/{case}")
        schema, fields = dice.choice(SHAPES)
        source = self._source(dice, fields)
        space = dict(SPACE)
        exec(source, space)
        try:
            fact = self._compared(space["f"], schema, dice)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            fact = f"{type(error).__name__}: {error}"
        return None if fact is None else Difference(case, source, fact)

    def _source(self, dice: random.Random, fields: Any) -> str:
        return FunctionWriter(dice, fields).function()

    def _compared(self, function: Callable[[Any], Any], schema: Type, dice: random.Random) -> str | None:
        try:
            untyped = trace(function, None, 1)
            traced, result = untyped.typed(schema)
            condition = untyped.condition(schema)
        except NotVectorizable as refused:
            self.counts["per record"] += 1
            self.refusals[str(refused)] += 1
            return None
        if not traced.holds(function):
            return "what was traced does not hold"
        from funken.columnar.kernels.columns import columns_of
        from funken.columnar.kernels.evaluation import FallBackToRows, computed, mask_of
        from funken.columnar.keyed.codec import decode_block, encode_block

        for wild in (False, True):
            records = random_records(dice, schema, wild)
            block = columns_of(records, schema)
            if not has_documents(schema) and repr(block.to_list()) != repr(records):
                return f"columns of {records} are {block.to_list()}"
            try:
                expected: list[Any] | None = [function(record) for record in records]
            except Exception:  # noqa: BLE001 - whatever it is, the kernels may not hide it
                expected = None
            try:
                columns = computed(traced.result, result, block)
                mask = mask_of(condition.result, block)
            except FallBackToRows:
                self.counts["rows: it raises" if expected is None else "rows: it may differ"] += 1
                continue
            made = columns.to_list()
            if expected is None:
                return f"kernels give {made} for {records}, Python raises"
            if repr(made) != repr(expected):
                return f"kernels give {made} for {records}, Python {expected}; the schema is {result}"
            kept = [mask] * len(records) if isinstance(mask, bool) else mask.tolist()
            if kept != list(map(bool, expected)):
                return f"as a condition, kernels give {kept} for {records}, Python {expected}"
            sent = decode_block(encode_block(columns)).to_list()
            if repr(sent) != repr(expected):
                return f"sent to another task, {expected} is {sent}"
            self.counts["columns"] += 1
        return None


class FunctionWriter:
    """Writes one function; ``known`` are expressions of each type."""

    def __init__(self, dice: random.Random, known: dict[str, list[str]]) -> None:
        self._dice = dice
        #: how often something with a list is written
        self._lists = 0.4 if "ints" in known else dice.choice((0.0, 0.0, 0.2))
        self.known = {kind: list(each) for kind, each in known.items()}

    def function(self) -> str:
        """Return the source."""
        each = ("int", "float", "str", "bool", *(("ints", "strs", "floats") if self._lists else ()))
        kinds = [self._dice.choice(each) for _ in range(self._dice.randrange(1, 4))]
        form = self._dice.choice(("bare", "bare", "tuple", "dict", "pair", "visit", "row", "maybe"))
        if self._dice.random() < 0.4:
            return f"f = lambda r: {self.result(form, kinds)}"
        lines = ["def f(r):"]
        for number in range(self._dice.randrange(3)):
            kind = self._dice.choice(("int", "float", "str", "bool"))
            lines.append(f"    v{number} = {self.expression(kind, 2)}")
            self.known[kind].append(f"v{number}")
        if self._dice.random() < self._lists:
            lines += self._written_out()
        for written in (self._changed, self._unrolled, self._raised):
            if self._dice.random() < 0.15:
                lines += written()
        if self._dice.random() < 0.25:
            lines += self._match(form, kinds)
        for _ in range(self._dice.randrange(3)):
            lines += [f"    if {self.expression('bool', 2)}:", f"        return {self.result(form, kinds)}"]
        return "\n".join([*lines, f"    return {self.result(form, kinds)}"])

    def _written_out(self) -> list[str]:
        """Return a loop that carries one or two variables, which are known behind it."""
        dice, items = self._dice, self._dice.choice(("int", "float", "str"))
        known = {kind: list(each) for kind, each in self.known.items()}
        self.known[items] += ["x", "x"]
        before, body, after = [], [], {}
        for number in range(dice.randrange(1, 3)):
            name, kind = f"c{number}", dice.choice(("int", "float", "str", "bool", "ints"))
            added = self.expression("int" if kind == "ints" else kind, 1)
            start = {"int": "0", "float": "0.0", "str": "''", "bool": "False", "ints": "[]"}[kind]
            forms = {"bool": [f"{name} = True"], "ints": [f"{name}.append({added})"]}
            better = [f"{name} = max({name}, {added})", f"{name} += {added}", f"{name} = {name} + {added}"]
            line = dice.choice(forms.get(kind, better))
            condition = dice.random() < 0.5 or kind == "bool"
            body += (
                [f"        if {self.expression('bool', 1)}:", f"            {line}"]
                if condition
                else [f"        {line}"]
            )
            before.append(f"    {name} = {start}")
            after[name] = kind
        if dice.random() < 0.3:
            leave = dice.choice(("continue", "continue", "continue", "break"))
            body = [f"        if {self.expression('bool', 1)}:", f"            {leave}", *body]
        self.known = known
        lines = [*before, f"    for x in {self.expression(f'{items}s', 1)}:", *body]
        for name, kind in after.items():
            self.known.setdefault(kind, []).append(name)
        return lines

    def _changed(self) -> list[str]:
        """Return lines that make a dict and change it; its items are known behind them."""
        dice = self._dice
        lines = [f"    d = {{'p': {self.expression('int', 1)}, 'q': {self.expression('str', 1)}, 's': 0.5}}"]
        there = {"p": "int", "q": "str", "s": "float"}
        for _ in range(dice.randrange(1, 5)):
            name, kind = dice.choice(list(there.items()))
            value = self.expression(kind, 1)
            match dice.randrange(7):
                case 0 if len(there) > 1:
                    del there[name]
                    lines.append(dice.choice((f"    del d['{name}']", f"    w_{name} = d.pop('{name}')")))
                case 1:
                    lines += ["    e = d", f"    e['{name}'] = {value}"]
                case 2:
                    lines.append(f"    d.update({name}={value})")
                case 3:
                    lines += [f"    if {self.expression('bool', 1)}:", f"        d['{name}'] = {value}"]
                case 4:
                    lines += [f"    e = dict(d, {name}={value})", f"    e['{name}'] = {self.expression(kind, 1)}"]
                case 5:
                    there["n"] = "int"
                    lines.append(f"    d['n'] = d.get('n', 3) + d.pop('none', {self.expression('int', 1)})")
                case _:
                    lines.append(f"    d['{name}'] {'=' if kind == 'float' else '+='} {value}")
        for name, kind in there.items():
            self.known[kind].append(f"d['{name}']")
        self.known["str"].append("','.join(f'{k}={v}' for k, v in d.items() if k != 'q')")
        return lines

    def _unrolled(self) -> list[str]:
        """Return a loop over a display, with a sum that is known behind it."""
        leave = self._dice.choice(("continue", "break"))
        items = f"({self.expression('int', 1)}, 2, {self.expression('int', 1)})"
        lines = [
            "    t = 0",
            f"    for k in {items}:",
            f"        if k > {self.expression('int', 1)}:",
            f"            {leave}",
        ]
        self.known["int"].append("t")
        return [*lines, "        t += k"]

    def _raised(self) -> list[str]:
        """Return a check that few records, if any, do not pass."""
        condition = f"{self.expression('int', 1)} == 77"
        return self._dice.choice(
            (
                [f"    if {condition}:", f"        raise ValueError({self.expression('str', 1)})"],
                [f"    assert not {condition}"],
            )
        )

    def _match(self, form: str, kinds: list[str]) -> list[str]:
        lines = [f"    match {self.expression('int', 1)}:"]
        for pattern in self._dice.sample(("0", "1", "2 | 3", "-1", "1000"), 2):
            lines += [f"        case {pattern}:", f"            return {self.result(form, kinds)}"]
        return lines

    def result(self, form: str, kinds: list[str]) -> str:
        """Return an expression of a result."""
        made = [self.expression(kind, 3) for kind in kinds]
        match form:
            case "tuple":
                return f"({', '.join(made)},)"
            case "dict":
                return "{" + ", ".join(f"'k{number}': {each}" for number, each in enumerate(made)) + "}"
            case "pair":
                text, number = self.expression("str", 2), self.expression("int", 2)
                return self._dice.choice(
                    (f"Pair({number}, {text})", f"Pair(text={text}, number={number})",
                     f"Pair(0, {text})._replace(number={number})")
                )  # fmt: skip
            case "visit":
                number = self.expression("int", 2)
                return self._dice.choice(
                    (f"Visit({number})", f"Visit({number}, text={self.expression('str', 2)})",
                     f"dataclasses.replace(Visit(1), number={number}, flag={self.expression('bool', 1)})")
                )  # fmt: skip
            case "row":
                return f"Row(a={made[0]}, b={self.expression('str', 1)})"
            case "maybe":
                return f"({made[0]} if {self.expression('bool', 2)} else None)"
        return made[0]

    def expression(self, kind: str, depth: int) -> str:
        """Return an expression of a type."""
        if depth <= 0 or self._dice.random() < 0.25:
            return self._leaf(kind)
        if self._dice.random() < 0.12:
            then, condition, other = (self.expression(each, depth - 1) for each in (kind, "bool", kind))
            return f"({then} if {condition} else {other})"
        listed = kind not in _FORMS or self._dice.random() < self._lists
        form = self._dice.choice((_LIST_FORMS if listed else _FORMS)[kind])
        form = _PLAIN.sub(lambda found: self._plain(found[1]), form)
        return _HOLE.sub(lambda found: self.expression(found[1], depth - 1), form)

    def _leaf(self, kind: str) -> str:
        constants = {
            "int": ("0", "1", "3", "-2", "1000", "FACTOR"),
            "float": ("0.5", "-0.0", "2.0"),
            "str": _CONSTANTS,
            "bool": ("True",),
        }
        if kind not in constants:
            if kind not in self.known:
                return {"ints": "[len(x) for x in {}]", "floats": "[len(x) / 4 for x in {}]", "strs": "{}"}[
                    kind
                ].format(f"{self._leaf('str')}.split(',')")
            return self._dice.choice(self.known[kind])
        if self._dice.random() < 0.7:
            return self._dice.choice(self.known[kind])
        return self._dice.choice(constants[kind])

    def _plain(self, kind: str) -> str:
        """Return an expression without quotes, which may stand in an f-string of any Python."""
        found = [each for each in self.known[kind] if "'" not in each]
        return self._dice.choice(found) if found else "1"


__all__ = ["Difference", "FunctionFuzzer", "FunctionWriter"]
