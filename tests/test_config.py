"""Options: known, checked when they are set, and explained when they are wrong."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import config
from funken.config import Configuration, duration_ms, options
from funken.errors import InvalidConfiguration


@pytest.mark.parametrize(
    ("given_value", "millis"),
    [
        (5, 5), (5.0, 5), ("5", 5), ("5ms", 5), ("5 ms", 5), ("2 s", 2000), ("1.5 s", 1500), ("2 sec", 2000),
        ("2 seconds", 2000), ("1 min", 60_000), ("1 minute", 60_000), ("1 h", 3_600_000), ("1 d", 86_400_000), ("-1", -1),
        (timedelta(seconds=2), 2000), (timedelta(days=1, milliseconds=1), 86_400_001), ("10 millis", 10),
        ("1 milli", 1), ("3 milliseconds", 3), ("2 m", 120_000), ("2 hours", 7_200_000), ("1 day", 86_400_000),
    ],
)  # fmt: skip
def test_durations(given_value, millis):
    assert duration_ms(given_value) == millis


@pytest.mark.parametrize("wrong", ["", "soon", "5 parsecs", None, [], True, "1 2"])
def test_what_is_no_duration(wrong):
    with pytest.raises(ValueError, match="is no duration"):
        duration_ms(wrong)


@given(st.integers(-(10**12), 10**12))
def test_a_number_of_milliseconds_is_itself(number):
    assert duration_ms(number) == duration_ms(str(number)) == duration_ms(f"{number} ms") == number


def test_an_unknown_option_is_refused_with_the_nearest_known_one():
    with pytest.raises(
        InvalidConfiguration, match="'execution.runtimemode' is unknown. Did you mean 'execution.runtime-mode'"
    ):
        Configuration({"execution.runtimemode": "BATCH"})
    with pytest.raises(InvalidConfiguration, match="Known options: .*parallelism.default"):
        Configuration().set_string("wholly-different", "1")


def test_options_of_flinks_own_runtime_are_kept_and_have_no_effect():
    conf = Configuration({"taskmanager.memory.process.size": "4g"})

    assert conf.get_string("taskmanager.memory.process.size", "") == "4g"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("parallelism.default", "two", "no whole number"),
        ("parallelism.default", True, "no whole number"),
        ("execution.runtime-mode", "fast", "not one of streaming, batch, automatic"),
        ("pipeline.operator-chaining.enabled", "yes", "neither true nor false"),
        ("execution.buffer-timeout.interval", "soon", "no duration"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_when_it_is_set(key, value, message):
    with pytest.raises(InvalidConfiguration, match=f"option '{key}': .*{message}.*It means: "):
        Configuration().set(key, value)


def test_every_option_has_a_default_and_an_explanation():
    for option in options():
        assert option.doc.endswith(".")
        assert Configuration().get(option) == option.default


def test_values_are_read_in_their_type():
    conf = (
        Configuration()
        .set_integer("parallelism.default", "3")
        .set_boolean("pipeline.operator-chaining.enabled", "false")
    )

    assert conf.get(config.PARALLELISM) == 3
    assert conf.get(config.CHAINING) is False
    assert conf.get_integer("parallelism.default", 0) == 3
    assert conf.get_boolean("pipeline.operator-chaining.enabled", True) is False
    assert conf.get_string("pipeline.name", "none") == "none"


def test_configurations_are_copied_joined_and_compared():
    one = Configuration({"parallelism.default": 2})
    two = one.copy().set("pipeline.name", "x")

    assert one != two
    assert one.add_all(two) == two
    assert one.contains_key("pipeline.name")
    assert one.remove_config("pipeline.name")
    assert not one.remove_config("pipeline.name")
    assert one.key_set() == {"parallelism.default"}
    assert one.to_dict() == {"parallelism.default": 2}


def test_job_parameters_may_be_text():
    conf = Configuration({"pipeline.global-job-parameters": "a:1,b:x:y"})

    assert conf.get(config.JOB_PARAMETERS) == {"a": "1", "b": "x:y"}
