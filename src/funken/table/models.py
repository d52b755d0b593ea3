"""Models of ML_PREDICT: a provider makes a predictor of a model's options; it is a function of rows in tasks.

``provider = 'python'`` calls a function of the program: ``'function' = 'module:name'``. Other providers are registered by name.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from funken.errors import InvalidProgram
from funken.table.catalog import CatalogModel
from funken.table.changelog import ChangelogMode
from funken.types.row import Row

Predict = Callable[..., Any]
"""Takes the values of the model's columns in, and returns those of its columns out; or rows of them."""


def _python(model: CatalogModel) -> Predict:
    """Return the function that the option ``function`` names."""
    target = dict(model.options).get("function", "")
    module, _, name = target.partition(":")
    try:
        found: Predict = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidProgram(
            f"the model's function {target!r} cannot be imported: {error}. Write 'function' = 'module:name'."
        ) from None
    return found


_providers: dict[str, Callable[[CatalogModel], Predict]] = {"python": _python}


def register_provider(name: str, factory: Callable[[CatalogModel], Predict]) -> None:
    """Register a provider of models under a name, for this process.

    >>> register_provider("length", lambda model: len)
    >>> predictor_of(CatalogModel((), (), (("provider", "length"),)))("abc")
    3
    """
    _providers[name] = factory


def predictor_of(model: CatalogModel) -> Predict:
    """Return the predictor; raises ``InvalidProgram`` for an unknown provider."""
    name = dict(model.options).get("provider", "")
    if name not in _providers:
        raise InvalidProgram(
            f"the model's provider {name!r} is unknown; there are: {', '.join(sorted(_providers))}. Register others with "
            "funken.table.models.register_provider()."
        )
    return _providers[name](model)


class ModelPrediction:
    """ML_PREDICT of a model, in the manner of a process table function: the row, then the model's columns out."""

    kind = "process"
    deterministic = False

    def __init__(self, model: CatalogModel, columns: Sequence[int]) -> None:
        self._columns = tuple(columns)
        self._width = len(model.outputs)
        self._predict = predictor_of(model)

    def __repr__(self) -> str:
        return f"<model of columns {self._columns}>"

    def passes_columns(self, name: str) -> bool:
        """Return that the row stands in the result."""
        return True

    def traits(self, name: str) -> frozenset[str]:
        """Return the traits of the table argument."""
        return frozenset(("row", "pass_columns"))

    def changelog_mode(self, modes: Sequence[ChangelogMode], requested: ChangelogMode | None = None) -> ChangelogMode:
        """Return that rows are only added."""
        return ChangelogMode.insert_only()

    def eval(self, ctx: Any, **arguments: Any) -> Iterator[tuple[Any, ...]]:
        """Return the columns out for a row."""
        row = next(value for value in arguments.values() if isinstance(value, Row))
        found = self._predict(*(row[place] for place in self._columns))
        if inspect.isawaitable(found):
            import asyncio  # noqa: PLC0415 - only where models are asynchronous

            found = asyncio.run(_awaited(found))
        yield from _rows(found, self._width)


async def _awaited(found: Any) -> Any:
    return await found


def _rows(found: Any, width: int) -> Iterable[tuple[Any, ...]]:
    """Return the rows of a model's result: values, a row, or rows."""
    if isinstance(found, list):
        return [row for one in found for row in _rows(one, width)]
    if isinstance(found, Mapping):
        return [tuple(found.values())]
    return [tuple(found)] if isinstance(found, Row | tuple) else [(found,)]


def prediction(model: CatalogModel, columns: Sequence[int]) -> ModelPrediction:
    """Return ML_PREDICT of a model for columns of a table, by their places."""
    return ModelPrediction(model, columns)
