"""What an operation of Python is: a row of a table, from which types, kernels, a line of the reference and a test follow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from funken.expr.types import Type

Signatures = Mapping[tuple[Type, ...], Type]
"""The type of the result, by those of the arguments."""
Inference = Callable[[tuple[Type, ...]], "Type | None"]
"""The same for types that are too many to be listed: of lists of anything. ``None``: there is none."""


@dataclass(frozen=True)
class OperationRule:
    """An operation: ``function`` is Python's own, and the kernel wherever a row names no other.

    ``native`` signatures are computed on arrays by the evaluator itself, and never value by value.
    """

    name: str
    """As expressions have it: ``str.find``, ``math.sqrt``, ``+``."""
    function: Callable[..., Any]
    signatures: Signatures = field(default_factory=dict)
    native: Signatures = field(default_factory=dict)
    infer: Inference | None = None
    target: Any = None
    """The object that a program calls, if that is what it is known by: ``math.sqrt``."""
    builtin: bool = False
    """Whether a program calls it by the name, which is built in."""
    takes: Collection[int] = ()
    """How many arguments a built-in function takes that works on items: others say it by their signatures."""
    items: bool = False
    """Whether it works on the items of its only argument."""
    keeps: tuple[Type, ...] = ()
    """The types of values that are its result themselves."""
    native_with: int | None = None
    """The place of an argument that has to be a constant for the native ones."""
    raises: bool = False
    """Whether a native one raises for some values."""
    binds: int | None = None
    """The place of the argument whose method ``function`` is: where that is constant, the bound method is called."""
    texts: str = ""
    """The kernel, ``module.name`` in ``columnar``, for blocks whose first argument that is no constant is text."""
    numbers: str = ""
    """The same of numbers."""
    times: str = ""
    """The same of datetimes or dates that are microseconds."""
    lists: str = ""
    """The same of lists."""
    written: str = ""
    """How a program writes it, with ``{0}``, ``{1}`` ... for its arguments; nothing: a program cannot."""
    group: str = ""
    constants: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    """Arguments that have to be constants, or are so usually, by their place: some to test with."""

    def result(self, types: tuple[Type, ...]) -> Type | None:
        """Return the type of what is computed value by value, or by a kernel that is named; ``None`` if there is none."""
        found = self.signatures.get(types)
        return self.infer(types) if found is None and self.infer is not None else found

    def kernel(self, of: str) -> str:
        """Return the name of the kernel for ``texts``, ``numbers``, ``times`` or ``lists``; nothing, if it has none."""
        name: str = getattr(self, of, "")
        return name

    @property
    def method(self) -> str:
        """The method that a program calls for it; nothing, if it calls none."""
        if self.binds is not None:
            return self.name
        return "" if self.target is not None or self.name.startswith("@") else self.name.partition(".")[2]

    def counts(self) -> Collection[int]:
        """Return how many arguments it takes."""
        return self.takes or {1 if self.keeps else 0, *(len(types) for types in (*self.signatures, *self.native))} - {0}


class OperationTable:
    """Operations by their names.

    >>> table = OperationTable([OperationRule("abs", abs)])
    >>> table["abs"].function(-1), table.find("cbs"), len(list(table))
    (1, None, 1)
    """

    def __init__(self, rows: Iterable[OperationRule]) -> None:
        self._rows: dict[str, OperationRule] = {}
        for row in rows:
            if row.name in self._rows:
                raise ValueError(f"two operations are called {row.name}")
            self._rows[row.name] = row
        self._targets: dict[Any, str] = {
            row.target: row.name for row in self._rows.values() if row.target is not None and not row.builtin
        }

    def __iter__(self) -> Iterator[OperationRule]:
        return iter(self._rows.values())

    def __getitem__(self, name: str) -> OperationRule:
        return self._rows[name]

    def find(self, name: str) -> OperationRule | None:
        """Return the row of a name; ``None`` if there is none."""
        return self._rows.get(name)

    def name_of(self, value: Any) -> str | None:
        """Return the name of a function of the library; ``None`` if it is not known."""
        try:
            return self._targets.get(value)
        except TypeError:  # it has no hash
            return None


__all__ = ["OperationRule", "OperationTable", "Signatures"]
