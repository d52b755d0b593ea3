"""What functions log and print, in the three ways: in the log of the job, with who it was."""

import json
import logging

import pytest

from funken import MapFunction

WAIT = 100


class Price(MapFunction):
    def open(self, runtime_context):
        logging.getLogger("shop").info("opened")

    def map(self, value):
        logging.getLogger("shop").warning("no price for %s", value)
        return value


def invert(value):
    logging.getLogger("shop").error("about to fail")
    return 1 // value


def test_what_functions_log_comes_to_the_log_of_the_job(environment, mode, tmp_path):
    options = {"env.log.dir": tmp_path, "env.log.level": "INFO"}
    env = environment(options)
    items = env.from_collection(["apples", "pears"]).rebalance().map(Price()).name("price").uid("prices")
    items.for_each(lambda _: None)
    client = env.execute_async("shop")
    client.get_job_execution_result().result(WAIT)

    records = client.logs().read(None, 1000).records

    mine = [each for each in records if each["logger"] == "shop" and each["level"] == "WARN"]
    assert sorted(each["message"] for each in mine) == ["no price for apples", "no price for pears"]
    assert {(each["operator"], each["operator-id"], each["attempt"]) for each in mine} == {("price", "prices", 0)}
    assert {each["subtask"] for each in mine} <= {0, 1}
    opened = {each["subtask"] for each in records if each["message"] == "opened"}
    assert opened == {0, 1}
    assert any(each["message"].endswith("to FINISHED.") for each in records)
    files = [path for path in tmp_path.iterdir() if path.suffix == ".log"]
    written = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert [each["message"] for each in written] == [each["message"] for each in records]
    if mode != "local":
        assert all(each["host"] and each["pid"] for each in mine)


def test_what_a_function_has_logged_before_it_fails_is_there(environment, mode):
    env = environment()
    env.from_collection([0]).map(invert).name("invert").for_each(lambda _: None)
    client = env.execute_async("fails")
    assert "by zero" in str(client.get_job_execution_result().exception(WAIT))

    messages = [each["message"] for each in client.logs().read(None, 1000).records]

    assert "about to fail" in messages
    assert [text for text in messages if "operator 'invert'" in text]


@pytest.mark.ways("continuous", "batch")
def test_what_functions_print_in_workers_is_logged_if_wanted(environment):
    env = environment({"taskmanager.system-out.mode": "LOG"})
    env.from_collection(["apples"]).map(lambda item: (print("sold", item), item)[1]).name("sell").for_each(  # noqa: T201
        lambda _: None
    )
    client = env.execute_async("prints")
    client.get_job_execution_result().result(WAIT)

    printed = [each for each in client.logs().read(None, 1000).records if each["logger"] == "stdout"]

    assert [(each["message"], each["operator"]) for each in printed] == [("sold apples", "sell")]
