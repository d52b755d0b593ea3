"""Five jobs in trouble, and what an operator should be told of each: by the job's picture, by REST, and by ``funken top``."""

import time

from click.testing import CliRunner

from funken import DataGeneratorSource, WatermarkStrategy
from funken.cli.main import main
from funken.rest.client import RestClient

KEYS = 4


def slowly(value):
    time.sleep(0.002)
    return value


def slowly_generated(index):
    time.sleep(0.002)
    return index


def slow_only_of_one_key(pair):
    if pair[0] == 0:
        time.sleep(0.002)
    return pair


def for_ever(value):
    """Take half a second for each record from the thousandth on, and longer for the barrier behind many of them."""
    if value >= 1000:
        time.sleep(0.5)
    return value


def _numbers(env, function=int, rate=None):
    source = DataGeneratorSource(function, None, rate)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


def _pairs(numbers):
    return numbers.rebalance().map(lambda n: (n % KEYS, n)).name("pairs").uid("pairs")


def slow_sink(env):
    newest = _pairs(_numbers(env)).key_by(lambda pair: pair[0]).reduce(lambda a, b: b).name("newest").uid("newest")
    newest.rebalance().for_each(slowly).name("store").uid("store")


def slow_middle(env):
    enriched = _numbers(env).rebalance().map(slowly).name("enrich").uid("enrich")
    enriched.key_by(lambda n: n % KEYS).sum().name("sums").uid("sums").rebalance().for_each(len_of).name("store").uid(
        "store"
    )


def len_of(value):
    return value


def skewed_key(env):
    pairs = _numbers(env).rebalance().map(lambda n: (0 if n % 10 else n % KEYS, n)).name("pairs").uid("pairs")
    priced = pairs.key_by(lambda pair: pair[0]).map(slow_only_of_one_key).name("price").uid("price")
    priced.rebalance().for_each(len_of).name("store").uid("store")


def slow_source(env):
    _pairs(_numbers(env, slowly_generated)).rebalance().for_each(len_of).name("store").uid("store")


def stuck_checkpoint(env):
    env.enable_checkpointing(200)
    stuck = _numbers(env, rate=2000).rebalance().map(for_ever).name("ask").uid("ask")
    stuck.rebalance().for_each(len_of).name("store").uid("store")


SITUATIONS = {
    "slow sink": (slow_sink, "store"),
    "slow middle": (slow_middle, "enrich"),
    "skewed key": (skewed_key, "price"),
    "slow source": (slow_source, "numbers"),
    "stuck checkpoint": (stuck_checkpoint, "ask"),
}


def is_named(job, vertex, seconds, words="is the bottleneck"):
    """Wait until the picture of a job, REST and ``funken top`` name a vertex as the cause; return the picture."""
    end, said = time.monotonic() + seconds, None
    while time.monotonic() < end:
        found = job.snapshot()
        assert not found.state.is_terminal_state(), found.failures
        slow = [each.text("") for each in found.bottlenecks[:1]]
        causes = [each for each in (*slow, *found.stuck_checkpoints()) if words in each]
        if any(vertex in cause for cause in causes):
            rest, shown = (
                _of_rest(job, found),
                CliRunner().invoke(main, ["top", "--once", "--url", job.get_web_interface_url()]),
            )
            said = {"picture": causes, "rest": rest, "top": shown.output}
            in_words = [line for line in shown.output.splitlines() if words in line]
            if vertex in rest and any(vertex in line for line in in_words):
                return found
        else:
            said = {"picture": causes}
        time.sleep(0.2)
    raise AssertionError(f"{vertex} is not named: {said}\n{found.to_json()}")


def _of_rest(job, found):
    """The names of the vertices that REST blames."""
    rest = RestClient(job.get_web_interface_url())
    vertex = rest.get("jobs", found.id)["vertices"][0]["id"]
    slow = [each["name"] for each in rest.get("jobs", found.id, "vertices", vertex, "backpressure")["bottlenecks"][:1]]
    waiting = [
        each["id"] for each in rest.get("jobs", found.id, "checkpoints")["history"] if each["status"] == "IN_PROGRESS"
    ]
    for number in waiting:
        slow += [
            each["name"] for each in rest.get("jobs", found.id, "checkpoints", "details", str(number))["held-up-by"]
        ]
    return " ".join(slow)
