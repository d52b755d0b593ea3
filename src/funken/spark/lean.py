"""Calls of PySpark without the imports that it makes for them, which cost each program on Spark half a second or more.

PySpark 4.3 looks whether an argument of a call is a value of NumPy, and imports its testing utilities, with them pandas, to find
out whether there is NumPy. A value of NumPy is there only if NumPy is imported, which is looked up here instead. Its
``mapInArrow`` imports pandas only to see that it is there. What PySpark makes of the values, and of the plan, stays PySpark's.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import DataFrame, types
from pyspark.sql.pandas import functions
from pyspark.util import PythonEvalType


def spare_imports() -> None:
    """Let the converters of PySpark import nothing to recognize a value; a PySpark without them is left as it is."""
    for name, recognizes in (("NumpyScalarConverter", _is_scalar), ("NumpyArrayConverter", _is_array)):
        converter: Any = getattr(types, name, None)
        if converter is not None:
            converter.can_convert = recognizes


def map_in_arrow(frame: DataFrame, function: Any, schema: str, barrier: bool = False) -> DataFrame:
    """Return ``frame.mapInArrow(function, schema, barrier)``; a PySpark of another build is asked for that itself."""
    vectorized: Any = getattr(functions, "vectorized_udf", None)
    java: Any = getattr(frame, "_jdf", None)
    if vectorized is None or java is None:
        return frame.mapInArrow(function, schema, barrier)
    udf = vectorized(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns = udf(*[frame[quoted(name)] for name in frame.columns])
    return DataFrame(java.mapInArrow(columns._jc, barrier, None), frame.sparkSession)


def quoted(name: str) -> str:
    """Return the name of a column as Spark reads it: a dot in it is no field of a struct.

    >>> quoted("text.en"), quoted("a`b")
    ('`text.en`', '`a``b`')
    """
    return f"`{name.replace('`', '``')}`"


def _is_scalar(converter: Any, value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def _is_array(converter: Any, value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 1


__all__ = ["map_in_arrow", "quoted", "spare_imports"]
