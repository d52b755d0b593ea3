"""Options: known, checked when they are set, and explained when they are wrong."""

from datetime import timedelta
from importlib import resources

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from funken import StreamExecutionEnvironment, config
from funken.config import Configuration, duration_ms, options
from funken.config import configuration as flink
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


KNOWN = sorted({name for option in options() for name in (option.key, *option.older)})
WITHOUT_EFFECT = [(key, reason) for reason, keys in flink.groups() for key in keys]
LETTERS = "abcdefghijklmnopqrstuvwxyz-."


@given(st.sampled_from(KNOWN), st.data())
def test_a_key_that_is_misspelt_by_one_edit_is_refused_with_the_right_one(key, data):
    at = data.draw(st.integers(0, len(key) - 1))
    letter = data.draw(st.sampled_from(LETTERS))
    edit = data.draw(st.sampled_from(["insert", "delete", "replace"]))
    misspelt = key[:at] + ("" if edit == "delete" else letter) + key[at + (edit != "insert") :]
    assume(not flink.is_option(misspelt))

    with pytest.raises(InvalidConfiguration) as refused:
        Configuration({misspelt: "1"})

    assert str(refused.value) == f"option {misspelt!r} is unknown. Did you mean {key!r}?"


@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.intervall", "state.checkpoint.dir", "state.backend.typ", "restart-strategy.hope.strength",
        "restart-strategy.fixed-delay.attempt", "python.fn-execution.bundle.sise", "taskmanager.numberOfSlots",
        "jobmanager.memory.heap", "user.share", "io.tmp.dir", "metrics.latency.intervall", "high-availability.typ",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "put",
    [
        lambda key: Configuration({key: 1}),
        lambda key: Configuration.from_dict({key: 1}),
        lambda key: Configuration().set_string(key, "1"),
        lambda key: Configuration().set_integer(key, 1),
        lambda key: Configuration().add_all(Configuration({"parallelism.default": 1}), prefix=key + "."),
    ],
)
def test_no_part_of_the_options_takes_any_key(key, put):
    with pytest.raises(InvalidConfiguration, match=f"option '{key}.*' is unknown"):
        put(key)


def test_options_of_spark_are_set_in_its_session():
    with pytest.raises(
        InvalidConfiguration, match=r"'spark.executor.memory' is unknown. .*SparkSession.builder.config"
    ):
        Configuration({"spark.executor.memory": "4g"})


def test_every_listed_option_of_flink_is_kept_with_a_warning_that_says_why():
    assert len(WITHOUT_EFFECT) > 1000
    for key, reason in WITHOUT_EFFECT:
        name = key.replace("*", "any")
        if name.startswith(("table.", "sql-client.")):
            assert Configuration().set_string(name, "x").get_string(name, "") == "x"  # without a warning
            continue
        with pytest.warns(UserWarning, match="has no effect") as warned:
            conf = Configuration().set_string(name, "x")
        assert [str(w.message) for w in warned] == [f"option {name!r} has no effect here because {reason}."]
        assert warned[0].filename == __file__
        assert conf.get_string(name, "") == "x"


def test_a_warning_is_given_once_and_names_the_line_that_set_the_option():
    with pytest.warns(UserWarning) as warned:
        conf = Configuration({"taskmanager.numberOfTaskSlots": 4})
        conf = conf.copy().add_all(conf)
        StreamExecutionEnvironment.create_local_environment(1, conf).configure(conf)

    assert [w.filename for w in warned] == [__file__]


def test_an_option_that_funken_has_is_not_said_to_have_no_effect():
    for option in options():
        Configuration({option.key: option.default})
        assert flink.is_option(option.key)


def test_the_list_of_flinks_options_is_sorted():
    text = resources.files("funken.config").joinpath("flink_options.txt").read_text(encoding="utf-8")
    groups = [[line for line in group.splitlines() if line[:1] != "#"] for group in text.split("\n\n")]
    listed = [key for group in groups for key in group]

    assert all(group == sorted(group) for group in groups)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("parallelism.default", "two", "no whole number"),
        ("parallelism.default", True, "no whole number"),
        ("execution.runtime-mode", "fast", "not one of streaming, batch, automatic"),
        ("pipeline.operator-chaining.enabled", "yes", "neither true nor false"),
        ("execution.buffer-timeout.interval", "soon", "no duration"),
        ("execution.buffer-timeout.interval", -2, "-2 is not allowed; it must be 0 or more, or -1"),
        ("execution.buffer-timeout.interval", float("inf"), "no duration"),
        ("execution.checkpointing.interval", "-5 s", "'-5 s' is not allowed; it must be 0 or more, or -1"),
        ("execution.checkpointing.interval", None, "no duration"),
        ("execution.checkpointing.mode", "at_most_once", "not one of exactly_once, at_least_once"),
        ("execution.checkpointing.timeout", 0, "0 is not allowed; it must be 1 or more"),
        ("execution.checkpointing.max-concurrent-checkpoints", 0, "it must be 1 or more"),
        ("execution.checkpointing.num-retained", 0, "it must be 1 or more"),
        ("execution.checkpointing.dir", 5, "5 is no text"),
        ("execution.checkpointing.data-inline-threshold", "-1", "no size"),
        ("execution.block.records", 0, "it must be 1 or more"),
        ("execution.block.records", 2.5, "no whole number"),
        ("parallelism.default", 0, "it must be 1 or more, or -1"),
        ("parallelism.default", None, "no whole number"),
        ("pipeline.global-job-parameters", "a", "no mapping"),
        ("pipeline.global-job-parameters", 5, "no mapping"),
        ("pipeline.name", None, "no text"),
        ("restart-strategy.type", "hope", "not one of none, fixed-delay, failure-rate, exponential-delay, default"),
        ("restart-strategy.fixed-delay.attempts", -1, "it must be 0 or more"),
        ("restart-strategy.exponential-delay.backoff-multiplier", 1.0, "it must be more than 1"),
        ("restart-strategy.exponential-delay.jitter-factor", "nan", "it must be from 0 to 1"),
        ("restart-strategy.exponential-delay.jitter-factor", [], "no number"),
        ("state.backend.type", "forst", "not one of hashmap, rocksdb"),
        ("state.backend.rocksdb.memory.write-buffer-ratio", 1, "it must be more than 0 and less than 1"),
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


@pytest.mark.parametrize("given_value", ["a, b", "[a, b]", "['a', \"b\"]", "- a\n- b\n", ["a", "b"]])
def test_a_list_of_names_may_be_one_of_yaml(given_value):
    assert Configuration().set("metrics.reporters", given_value).get(config.METRIC_REPORTERS) == ("a", "b")


@pytest.mark.parametrize("given_value", ["a:1,b:x", "{a: 1, 'b': x}", "a: 1\nb: x\n", {"a": 1, "b": "x"}])
def test_a_mapping_may_be_one_of_yaml(given_value):
    found = Configuration().set("pipeline.global-job-parameters", given_value).get(config.JOB_PARAMETERS)

    assert found == {"a": "1", "b": "x"}


def test_a_key_in_capitals_is_guessed_and_an_attribute_is_no_option():
    with pytest.raises(InvalidConfiguration, match="Did you mean 'parallelism.default'"):
        Configuration({"PARALLELISM.DEFAULT": 2})
    with pytest.raises(AttributeError):
        Configuration().parallelism = 3
    with pytest.raises(InvalidConfiguration, match=r"get\(\) takes an option of funken.config.* get_string"):
        Configuration().get("parallelism.default")
