import pickle

import cloudpickle
import pytest

from funken.errors import InvalidProgram
from funken.operators.async_io.retry import NO_RETRY_STRATEGY, AsyncRetryStrategy, RetryPredicate


def test_s88_a_fixed_delay_allows_so_many_attempts_after_the_first():
    strategy = AsyncRetryStrategy.fixed_delay(2, 50)
    assert [strategy.can_retry(attempts) for attempts in (1, 2, 3)] == [True, True, False]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2)] == [50, 50]


def test_an_exponential_backoff_grows_to_its_limit():
    strategy = AsyncRetryStrategy.exponential_backoff(9, 10, 100, 1.5)
    assert [strategy.get_backoff_time_millis(n) for n in range(1, 9)] == [10, 15, 22, 33, 50, 75, 100, 100]
    assert [strategy.can_retry(9), strategy.can_retry(10)] == [True, False]


def test_the_first_delay_may_be_longer_than_the_limit():
    strategy = AsyncRetryStrategy.exponential_backoff(9, 500, 100, 2)
    assert [strategy.get_backoff_time_millis(n) for n in (1, 2)] == [500, 100]


def test_a_strategy_keeps_no_count_of_its_own():
    strategy = AsyncRetryStrategy.exponential_backoff(9, 10, 1000, 2)
    assert [strategy.get_backoff_time_millis(n) for n in (3, 1, 3)] == [40, 10, 40]


def test_no_restart_never_makes_a_request_again():
    strategy = AsyncRetryStrategy.no_restart()
    assert strategy is NO_RETRY_STRATEGY
    assert not strategy.can_retry(1)
    assert strategy.get_retry_predicate() == RetryPredicate(None, None)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: AsyncRetryStrategy.fixed_delay(0, 1), "max_attempts"),
        (lambda: AsyncRetryStrategy.fixed_delay(1, 0), "backoff_time_millis"),
        (lambda: AsyncRetryStrategy.exponential_backoff(1, 0, 1, 1), "initial_delay"),
        (lambda: AsyncRetryStrategy.exponential_backoff(1, 1, -1, 1), "max_retry_delay"),
        (lambda: AsyncRetryStrategy.exponential_backoff(1, 1, 1, 0), "multiplier"),
    ],
)
def test_settings_must_be_positive(make, name):
    with pytest.raises(InvalidProgram, match=f"{name} should be greater than zero"):
        make()


def test_strategies_travel():
    strategy = AsyncRetryStrategy.fixed_delay(2, 50, exception_predicate=lambda error: True)
    copy = pickle.loads(cloudpickle.dumps(strategy))
    assert copy.get_retry_predicate().exception_predicate()(ValueError())
    assert copy.can_retry(2)
