"""Ready-made predicates for ``AsyncRetryStrategy``, under PyFlink's names.

>>> from functools import partial
>>> from funken import AsyncRetryStrategy
>>> strategy = AsyncRetryStrategy.fixed_delay(
...     max_attempts=3,
...     backoff_time_millis=50,
...     result_predicate=empty_result_predicate,
...     exception_predicate=partial(exception_type_predicate, expected_error_type=ConnectionError),
... )
>>> strategy.get_retry_predicate().exception_predicate()(ConnectionResetError())
True
"""

from __future__ import annotations

from typing import Any


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Tell whether a result is empty.

    >>> empty_result_predicate([]), empty_result_predicate([0])
    (True, False)
    """
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Tell whether there was an exception: any is worth another attempt.

    >>> has_exception_predicate(ValueError())
    True
    """
    return error is not None


def exception_type_predicate(error: BaseException | None, expected_error_type: type[BaseException]) -> bool:
    """Tell whether there was an exception of a type; bind the type with ``functools.partial``.

    >>> exception_type_predicate(TimeoutError(), OSError)
    True
    """
    return isinstance(error, expected_error_type)
