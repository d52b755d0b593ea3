"""Random functions with many branches: statements that assign, change records, return, yield and leave loops, on some paths."""

from __future__ import annotations

import random
from typing import Any

from funken.expr.types import INT, STR, Tuple

NAMES = ("a", "b", "c")
SCHEMA = Tuple((INT, INT, STR))


class Branching:
    """Writes functions of a tuple of two ints and a text; ``yields``: generators of them."""

    def __init__(self, dice: random.Random, yields: bool = False) -> None:
        self._dice = dice
        self._yields = yields
        self._left = dice.randint(4, 24)
        self._in_loop = False

    def source(self) -> str:
        """Return the source of a function ``f``."""
        lines = ["def f(x):", "    a, b, c = x", "    d = {'n': a, 'm': b}", "    m = None"]
        lines += self._block(1)
        if self._yields:
            lines += ["    yield (a, b, str(c), d['n'])"]
        else:
            lines += ["    return (a, b, str(c), d['n'] + d['m'], m is None)"]
        return "\n".join(lines) + "\n"

    def _block(self, depth: int) -> list[str]:
        found: list[str] = []
        for _ in range(self._dice.randint(1, 4)):
            if self._left > 0:
                found += self._statement(depth)
        return found or [self._pad(depth) + "a = a + 1"]

    @staticmethod
    def _pad(depth: int) -> str:
        return "    " * depth

    def _statement(self, depth: int) -> list[str]:
        self._left -= 1
        kind = self._dice.choices(
            ("assign", "if", "else", "elif", "end", "loop", "leave", "change", "missing"), (8, 5, 4, 2, 1, 1, 2, 3, 2)
        )[0]
        pad, deeper = self._pad(depth), depth + 1
        if kind == "if" and depth < 5:
            return [f"{pad}if {self._test()}:", *self._block(deeper)]
        if kind == "else" and depth < 5:
            return [f"{pad}if {self._test()}:", *self._block(deeper), f"{pad}else:", *self._block(deeper)]
        if kind == "elif" and depth < 5:
            arms = [f"{pad}elif {self._test()}:", *self._block(deeper), f"{pad}else:", *self._block(deeper)]
            return [f"{pad}if {self._test()}:", *self._block(deeper), *arms]
        if kind == "end":
            return [f"{pad}if {self._test()}:", self._pad(deeper) + self._ending()]
        if kind == "loop" and not self._in_loop and depth < 4:
            self._in_loop = True
            body = self._block(deeper)
            self._in_loop = False
            return [f"{pad}for w in ({', '.join(repr(each) for each in self._dice.sample(range(-3, 9), 4))}):", *body]
        if kind == "leave" and self._in_loop and not self._yields:
            leave = self._dice.choice(("break", "continue"))
            return [f"{pad}if {self._test()}:", self._pad(deeper) + leave]
        if kind == "change":
            return [f"{pad}d[{self._dice.choice(('n', 'm'))!r}] = {self._int()}"]
        if kind == "missing":
            given = [f"{pad}m = {self._int()}", f"{pad}m = None", f"{pad}a = 0 if m is None else m"]
            return [self._dice.choice(given)]
        return [pad + self._assignment()]

    def _ending(self) -> str:
        if self._yields:
            return f"yield ({self._int()}, {self._int()}, str(c), 0)"
        if self._dice.random() < 0.2:
            return "raise ValueError(a)"
        return f"return ({self._int()}, {self._int()}, str(c), 0, {self._dice.choice(('True', 'False'))})"

    def _assignment(self) -> str:
        name = self._dice.choice(NAMES)
        if name == "c":
            return self._dice.choice(
                ("c = c + 'x'", "c = c.upper()", "c = 'k1'", f"c = str({self._int()})", "c = c[:1]")
            )
        return f"{name} = {self._int()}"

    def _int(self) -> str:
        some = ("a", "b", "x[0]", "x[1]", "d['n']", "len(c)", str(self._dice.randint(-5, 9)), "(w if a else w + 1)")
        if not self._in_loop:
            some = some[:-1]
        one, other = self._dice.choice(some), self._dice.choice(some)
        shapes = (
            f"{one}",
            f"{one} + {other}",
            f"{one} - {other}",
            f"({one} if {self._test()} else {other})",
            f"{one} % 7",
        )
        return self._dice.choice((*shapes, f"max({one}, {other})", f"{one} // ({other})"))

    def _test(self) -> str:
        simple: list[str] = [
            f"{self._dice.choice(('a', 'b', 'x[0]', 'len(c)'))} {self._dice.choice(('<', '>', '==', '!='))} "
            f"{self._dice.randint(-4, 9)}",
            f"c == {self._dice.choice(('k1', 'k2', 'K3', ''))!r}",
            "a", "not b", "c", "m is None", "m is not None", "a > b", "d['n'] > d['m']",
        ]  # fmt: skip
        one, other = self._dice.choice(simple), self._dice.choice(simple)
        return self._dice.choice((one, one, f"{one} and {other}", f"{one} or {other}", f"not ({one} or {other})"))


def records(dice: random.Random) -> list[tuple[Any, ...]]:
    """Return records."""
    return [(dice.randint(-6, 12), dice.randint(-6, 12), dice.choice(("k1", "k2", "k3", "", "zz"))) for _ in range(40)]
