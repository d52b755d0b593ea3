"""Short ways to run a whole program in a test."""

from __future__ import annotations

from collections.abc import Iterable

from funken import DataStream, StreamExecutionEnvironment
from funken.types.generics import S


def local(records: Iterable[S], parallelism: int = 1) -> DataStream[S]:
    """Return a stream of ``records`` in an environment that runs in this process.

    >>> local([1, 2]).map(lambda x: -x).execute_and_collect(limit=2)
    [-1, -2]
    """
    return StreamExecutionEnvironment.create_local_environment(parallelism).from_collection(list(records))
