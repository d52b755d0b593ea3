"""Retries of asynchronous requests: strategies, and the predicates that they use.

A strategy is a value that travels in the plan and keeps no count: it is given the number of attempts made so far, so
one serves all requests at once. A request that times out is not made again, whatever its strategy says. The delays are
those of Flink's ``AsyncRetryStrategies``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.io.durations import DurationLike, duration_ms
from funken.state.keygroups import one_nan

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate:
    """The predicates for results and exceptions that are worth another attempt; ``None`` means never.

    >>> class Overloaded(AsyncRetryPredicate):
    ...     def result_predicate(self):
    ...         return None
    ...     def exception_predicate(self):
    ...         return lambda error: isinstance(error, ConnectionError)
    >>> worth_another = Overloaded().exception_predicate()
    >>> worth_another(ConnectionResetError()), worth_another(KeyError("no such user"))
    (True, False)
    """

    def result_predicate(self) -> ResultPredicate | None:
        """Return the predicate for results."""
        raise NotImplementedError

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the predicate for exceptions."""
        raise NotImplementedError


@dataclass(frozen=True)
class RetryPredicate(AsyncRetryPredicate):
    """Two functions."""

    on_result: ResultPredicate | None = None
    on_exception: ExceptionPredicate | None = None

    def result_predicate(self) -> ResultPredicate | None:
        """Return the predicate for results."""
        return self.on_result

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the predicate for exceptions."""
        return self.on_exception


class AsyncRetryStrategy:
    """A rule for repeating requests; subclass it for a strategy of your own.

    >>> from funken import AsyncDataStream, async_retry_predicates
    >>> from funken.testing import local
    >>> answers = iter([[], ["now"]])
    >>> async def ask(value):
    ...     return next(answers)
    >>> again = AsyncRetryStrategy.fixed_delay(3, 1, result_predicate=async_retry_predicates.empty_result_predicate)
    >>> asked = AsyncDataStream.ordered_wait_with_retry(local(["?"]), ask, "5 s", async_retry_strategy=again)
    >>> asked.execute_and_collect(limit=1)
    ['now']

    Delays (ms) that grow:

    >>> strategy = AsyncRetryStrategy.exponential_backoff(
    ...     max_attempts=5, initial_delay=100, max_retry_delay=1000, multiplier=2.0,
    ...     exception_predicate=async_retry_predicates.has_exception_predicate,
    ... )
    >>> [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4, 5)], strategy.can_retry(6)
    ([100, 200, 400, 800, 1000], False)
    """

    def can_retry(self, current_attempts: int) -> bool:
        """Return True if there may be another attempt after so many.

        >>> class Once(AsyncRetryStrategy):
        ...     def can_retry(self, current_attempts):
        ...         return current_attempts <= 1
        ...     def get_backoff_time_millis(self, current_attempts):
        ...         return 100
        ...     def get_retry_predicate(self):
        ...         return RetryPredicate(on_exception=lambda error: True)
        >>> Once().can_retry(1), Once().can_retry(2)
        (True, False)
        """
        raise NotImplementedError

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay (ms) before the attempt after so many."""
        raise NotImplementedError

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return the predicates for another attempt.

        >>> strategy = AsyncRetryStrategy.fixed_delay(3, 100, exception_predicate=lambda error: True)
        >>> strategy.get_retry_predicate().result_predicate() is None
        True
        """
        raise NotImplementedError

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Make every request once.

        >>> AsyncRetryStrategy.no_restart().can_retry(1)
        False
        """
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: DurationLike,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy:
        """Make a request again up to ``max_attempts`` times, each after the same delay (a duration, or ms).

        Raises ``InvalidProgram`` for a number that is not above zero.

        >>> strategy = AsyncRetryStrategy.fixed_delay(max_attempts=3, backoff_time_millis=100)
        >>> [strategy.can_retry(attempts) for attempts in (1, 3, 4)], strategy.get_backoff_time_millis(3)
        ([True, True, False], 100)
        """
        return FixedDelayRetryStrategy(
            max_attempts, duration_ms(backoff_time_millis), RetryPredicate(result_predicate, exception_predicate)
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: DurationLike,
        max_retry_delay: DurationLike,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy:
        """Make a request again up to ``max_attempts`` times, after a delay (a duration, or ms) that grows up to a limit.

        Raises ``InvalidProgram`` for a number that is not above zero.
        """
        predicate = RetryPredicate(result_predicate, exception_predicate)
        first, longest = duration_ms(initial_delay), duration_ms(max_retry_delay)
        return ExponentialBackoffDelayRetryStrategy(max_attempts, first, longest, multiplier, predicate)


class NoRetryStrategy(AsyncRetryStrategy):
    """Never again."""

    def can_retry(self, current_attempts: int) -> bool:
        """Return False."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return -1."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return a predicate that never retries."""
        return RetryPredicate()


NO_RETRY_STRATEGY = NoRetryStrategy()


@dataclass(frozen=True)
class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """The same delay before each attempt."""

    max_attempts: int
    backoff_time_millis: int
    predicate: AsyncRetryPredicate = RetryPredicate()

    def __post_init__(self) -> None:
        _positive(self, "max_attempts", "backoff_time_millis")

    def can_retry(self, current_attempts: int) -> bool:
        """Return True if there may be another attempt after so many."""
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay."""
        return self.backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return the predicates for another attempt."""
        return self.predicate


@dataclass(frozen=True)
class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """A delay that is multiplied after each attempt, up to a limit."""

    max_attempts: int
    initial_delay: int
    max_retry_delay: int
    multiplier: float
    predicate: AsyncRetryPredicate = RetryPredicate()

    def __post_init__(self) -> None:
        _positive(self, "max_attempts", "initial_delay", "max_retry_delay", "multiplier")

    def can_retry(self, current_attempts: int) -> bool:
        """Return True if there may be another attempt after so many."""
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay: the initial one, however large, and from then on no more than the limit."""
        delay: float = self.initial_delay
        for _ in range(current_attempts - 1):
            delay = min(delay * self.multiplier, self.max_retry_delay)
        return int(delay)

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return the predicates for another attempt."""
        return self.predicate


def _positive(strategy: Any, *names: str) -> None:
    for name in names:
        if getattr(strategy, name) <= 0:
            raise InvalidProgram(f"{name} should be greater than zero, but is {getattr(strategy, name)!r}.")


# ---- A cache of results with an expiry date: what ``cached(...)`` adds to an asynchronous function.
#
# Invariant: entries are in the order in which they expire, so that dropping what has expired never searches. No
# clock is read here: time (s) is an argument.


@dataclass(frozen=True)
class CacheSpec:
    """The settings of a cache: lifetime (ms), maximal number of results, and the key of a value (``None``: itself).

    ``combine(value, result)`` makes a record's result of the result of its key (``None``: the result itself).
    """

    ttl_ms: int
    max_size: int
    key: Callable[[Any], Hashable] | None = None
    combine: Callable[[Any, list[Any]], Iterable[Any]] | None = None

    def __post_init__(self) -> None:
        if self.ttl_ms <= 0 or self.max_size <= 0:
            raise InvalidProgram(
                f"a cache needs a ttl and a max_size above 0, but got {self.ttl_ms} ms and {self.max_size} entries."
            )


class ResultCache:
    """The results of one subtask; when it is full, the oldest goes.

    >>> cache = ResultCache(CacheSpec(ttl_ms=1000, max_size=2))
    >>> cache.put("a", [1], now=0.0)
    >>> cache.get("a", now=0.9), cache.get("a", now=1.0)
    ([1], None)
    """

    def __init__(self, spec: CacheSpec) -> None:
        self._ttl = spec.ttl_ms / 1000
        self._max_size = spec.max_size
        self._key = spec.key
        # A dict would look for its first entry behind all deleted ones.
        self._entries: OrderedDict[Hashable, tuple[float, list[Any]]] = OrderedDict()

    def key_of(self, value: Any) -> Hashable:
        """Return the key of a value; raises ``TypeError`` for one that cannot be a key."""
        key: Hashable = value if self._key is None else self._key(value)
        try:
            hash(key)
        except TypeError as error:
            raise TypeError(
                f"{error}: results cannot be cached by {key!r}. Pass cached(..., key=...), a function that returns "
                "something hashable for each value."
            ) from None
        found: Hashable = one_nan(key)
        return found

    def get(self, key: Hashable, now: float) -> list[Any] | None:
        """Return the result of a key, if there is one that has not expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and now < entry[0] else None

    def put(self, key: Hashable, result: list[Any], now: float) -> None:
        """Keep a result."""
        entries = self._entries
        entries.pop(key, None)
        entries[key] = (now + self._ttl, result)
        while len(entries) > self._max_size or entries[next(iter(entries))][0] <= now:
            entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)
