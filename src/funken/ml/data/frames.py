"""Spark ``DataFrame`` objects: columns change sides as Parquet files, and never become rows of Python.

A frame that only reads Parquet files of this file system is read from those; any other is written once. ``pyspark`` is not
imported here: a frame is known by its methods. What a model gives is added by ``mapInArrow``, so the result is a lazy frame of
Spark, also of a streaming one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow
import pyarrow.compute
from pyarrow import parquet

from funken.dataset import InputFormat
from funken.errors import InvalidProgram
from funken.ml.data.blocks import FeatureBlock, FieldLayout, column, labels, stacked
from funken.ml.data.demands import ANYTHING, Demands, FieldName

_ROWS = 65536


def is_frame(data: Any) -> bool:
    """Whether data is a ``DataFrame`` of Spark."""
    return hasattr(data, "mapInArrow") and hasattr(data, "sparkSession")


def values_of(array: Any) -> Any:
    """Return an Arrow column as an array: numbers as float64, lists as rows.

    >>> values_of(pyarrow.chunked_array([[[1, 2], [3, 4]]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    >>> values_of(pyarrow.chunked_array([[1, None]]))
    array([ 1., nan])
    """
    kind = array.type
    if pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind):
        return _numbers(array).astype(np.float64, copy=False)
    lists = pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind)
    if lists and not array.null_count and len(array):
        flat = pyarrow.chunked_array(array).combine_chunks() if isinstance(array, list) else array
        whole = flat.combine_chunks() if isinstance(flat, pyarrow.ChunkedArray) else flat
        whole = pyarrow.concat_arrays(whole.chunks) if isinstance(whole, pyarrow.ChunkedArray) else whole
        numbers = whole.flatten().to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        if len(pyarrow.compute.unique(pyarrow.compute.list_value_length(whole))) == 1:
            return numbers.reshape(len(array), -1)
        raise InvalidProgram("a column has vectors of different lengths. Give all of them the same length.")
    return column(array.to_pylist())


def _numbers(array: Any) -> Any:
    """Return numbers; None is NaN. Only a part of a column can be had without a copy, and only if nothing is missing."""
    return array.to_numpy() if isinstance(array, pyarrow.ChunkedArray) else array.to_numpy(zero_copy_only=False)


def labels_of(array: Any) -> Any:
    """Return an Arrow column as labels, of their own kind.

    >>> labels_of(pyarrow.array([1, 0])), labels_of(pyarrow.array(["a", "b"]))
    (array([1, 0]), array(['a', 'b'], dtype=object))
    """
    plain = pyarrow.types.is_integer(array.type) or pyarrow.types.is_floating(array.type)
    return _numbers(array) if plain and not array.null_count else labels(array.to_pylist())


def block_of_columns(table: Any, layout: FieldLayout, demands: Demands = ANYTHING) -> FeatureBlock:
    """Make a block of an Arrow table or batch."""
    missing = [name for name in layout.features or () if name not in table.schema.names]
    if missing:
        known = ", ".join(table.schema.names)
        raise InvalidProgram(f"the frame has no column {missing[0]!r}; it has: {known}. Name a column of it.")
    columns = [values_of(table.column(name)) for name in layout.features or ()]
    y = None if layout.label is None else labels_of(table.column(layout.label))
    w = None if layout.weight is None else values_of(table.column(layout.weight))
    demands.check(None, layout.features, columns, y, w)
    return FeatureBlock(stacked(columns), y, w)


class ParquetBlocks(InputFormat):
    """Feature blocks of the columns of Parquet files, a split per row group."""

    def __init__(self, paths: Sequence[str], layout: FieldLayout, demands: Demands) -> None:
        self.paths, self.layout, self.demands = paths, layout, self._of_first(paths, layout, demands)

    @staticmethod
    def _of_first(paths: Sequence[str], layout: FieldLayout, demands: Demands) -> Demands:
        """Let the first row say how wide the features are."""
        for path in paths:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(1):
                    block = [values_of(batch.column(name)) for name in layout.features or ()]
                    return replace(demands, widths=tuple(None if each.ndim == 1 else each.shape[1] for each in block))
        return demands

    @staticmethod
    def of(frame: Any, asked: FieldLayout, demands: Demands = ANYTHING) -> ParquetBlocks:
        """Find the files that a frame reads, or write it once, now; such files are removed when they are not used any more."""
        if frame.isStreaming:
            raise InvalidProgram(
                "fit() got a streaming DataFrame, which never ends. Fit on a static one, or learn on a stream."
            )
        names: Sequence[FieldName] = frame.columns
        layout = asked.resolve(dict.fromkeys(names), demands.caller)
        used = [str(name) for name in (*(layout.features or ()), layout.label, layout.weight) if name is not None]
        chosen = frame.select(*used)
        if found := files_of(chosen):
            return ParquetBlocks(found, layout, demands)
        folder = tempfile.mkdtemp(prefix="funken-blocks-")
        path = os.path.join(folder, "rows")
        chosen.write.parquet(path)
        written = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".parquet")]
        made = ParquetBlocks(written, layout, demands)
        weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
        return made

    def create_splits(self, parallelism: int) -> Sequence[Any]:
        """Make a split of every row group."""
        return [(path, at) for path in self.paths for at in range(parquet.ParquetFile(path).metadata.num_row_groups)]

    def read(self, split: Any) -> Iterator[FeatureBlock]:
        """Read a row group."""
        path, group = split
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, row_groups=[group]):
                if batch.num_rows:
                    yield block_of_columns(batch, self.layout, self.demands)


_SAME = {
    "double": pyarrow.float64(),
    "float": pyarrow.float32(),
    "bigint": pyarrow.int64(),
    "int": pyarrow.int32(),
    "smallint": pyarrow.int16(),
    "tinyint": pyarrow.int8(),
    "boolean": pyarrow.bool_(),
    "string": pyarrow.string(),
}
"""Types of Spark, and those of the files whose columns need no conversion."""


def files_of(frame: Any) -> list[str]:
    """Return the Parquet files of this machine that a frame reads, and does nothing else; none, if it is another frame.

    Whether that is so, is asked of Spark's optimized plan: columns by their names, from a relation of Parquet files. Partition
    columns, which are in no file, views of a cache, filters and conversions make it another frame.
    """
    try:
        plan = frame._jdf.queryExecution().optimizedPlan()
        if _class(plan) == "Project":
            columns = plan.projectList()
            if any(_class(columns.apply(at)) != "AttributeReference" for at in range(columns.length())):
                return []
            plan = plan.child()
        if _class(plan) != "LogicalRelation" or _class(plan.relation()) != "HadoopFsRelation":
            return []
        if _class(plan.relation().fileFormat()) != "ParquetFileFormat":
            return []
        places = [urlsplit(file) for file in frame.inputFiles()]
    except Exception:  # noqa: BLE001 - a frame of Spark Connect has no plan here, another release other classes: then it is written
        return []
    if any(place.scheme != "file" for place in places):
        return []
    paths = [unquote(place.path) for place in places]
    types = {field.name: _SAME.get(field.dataType.simpleString()) for field in frame.schema.fields}
    return paths if all(_has(path, types) for path in paths) else []


def _class(found: Any) -> str:
    name: str = found.getClass().getSimpleName()
    return name


def _has(path: str, types: dict[str, Any]) -> bool:
    if not os.path.isfile(path):
        return False
    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    return all(
        kind is not None and name in schema.names and schema.field(name).type == kind for name, kind in types.items()
    )


class Added:
    """Adds a column of results to Arrow batches; runs in Spark's workers."""

    def __init__(self, model: Any, method: str, fields: tuple[FieldName, ...] | None, name: str) -> None:
        self._call, self._fields, self._name = getattr(model, method), fields, name

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield every batch with the column."""
        for batch in batches:
            layout = FieldLayout(self._fields).resolve(dict.fromkeys(batch.schema.names))
            found = self._call(block_of_columns(batch, layout).X) if batch.num_rows else []
            found = found.toarray() if hasattr(found, "toarray") else found
            yield batch.append_column(self._name, pyarrow.array(np.asarray(found).tolist() if batch.num_rows else []))


def with_column(frame: Any, name: str, kind: str, model: Any, method: str, fields: tuple[FieldName, ...] | None) -> Any:
    """Return the frame with one more column."""
    if name in frame.columns:
        raise InvalidProgram(f"the frame has a column {name!r} already. Drop or rename it, or give another output_col.")
    columns = [f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields]
    return frame.mapInArrow(Added(model, method, fields, name), ", ".join([*columns, f"`{name}` {kind}"]))
