"""The records of ``execute_and_collect``, as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic

from funken.api.jobs.results import CompletableFuture, T
from funken.operators.coordinators.collecting import Collector

if TYPE_CHECKING:
    from funken.api.jobs.client import JobClient


class CloseableIterator(Generic[T]):
    """The records of ``execute_and_collect``, as they come; closing it stops the job.

    Iterate, call ``next()``, or use it in a ``with`` block, which closes it. What makes the job fail is raised by it.

    >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> squares = env.from_source(DataGeneratorSource(lambda index: index * index))
    >>> records = squares.execute_and_collect("squares")  # there is no end of them
    >>> records.next(), records.next(), next(records)
    (0, 1, 4)
    >>> records.close()
    >>> records.get_job_client().get_job_status().result().name
    'CANCELED'
    """

    def __init__(self, collector: Collector, client: JobClient) -> None:
        self._collector = collector
        self._client = client
        self._block: Iterator[T] = iter(())
        self._over = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: records of {self._client!r}>"

    def _repr_html_(self) -> str:
        return self._client._repr_html_()

    def __iter__(self) -> CloseableIterator[T]:
        return self

    def __next__(self) -> T:
        while True:
            for record in self._block:
                return record
            if self._over:
                raise StopIteration
            block = self._collector.get()
            if block is None:
                self._over = True
                self._client.get_job_execution_result().result()
                raise StopIteration
            self._block = iter(block)

    def next(self) -> T:
        """Return the next record, waiting for it; raises ``StopIteration`` after the last."""
        return self.__next__()

    def get_job_client(self) -> JobClient:
        """Return the job that produces the records."""
        return self._client

    def close(self) -> None:
        """Stop the job if it runs, and wait until it has stopped."""
        self._close(self._client.cancel)

    def _close(self, stop: Callable[[], CompletableFuture[None]]) -> None:
        self._over = True
        self._block = iter(())
        self._collector.close()
        if not self._client.get_job_execution_result().done():
            stop().result()

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ends = kind is not None and not issubclass(kind, Exception | GeneratorExit)  # the program does: Ctrl-C, say
        self._close(self._client.suspend if ends else self._client.cancel)
