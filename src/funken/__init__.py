"""Funken: Apache Flink's programming model and fault tolerance in Python, on Apache Spark.

>>> from funken import StreamExecutionEnvironment
>>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
>>> env.from_collection([1, 2, 3]).map(lambda x: x * x).execute_and_collect(limit=3)
[1, 4, 9]
"""

import funken.starting  # noqa: F401 - first, since the rest takes long
from funken.lazy import public_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = public_names(__name__)
