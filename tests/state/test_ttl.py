from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.state import ttl
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from funken.state.keyed import KeyedStateStore
from tests.support.windows import Sum

pytestmark = pytest.mark.usefixtures("backend")


class Clocked:
    """A store whose time is an attribute, and states that live 10 ms."""

    def __init__(self):
        self.now = 0
        self.store = KeyedStateStore(128, range(128), clock=lambda: self.now)
        self.store.current_key = "key"

    def state(self, descriptor, *, ttl=10, renew=False, show=False, cleanup=5):
        config = StateTtlConfig.new_builder(ttl).cleanup_incrementally(cleanup)
        if renew:
            config.update_ttl_on_read_and_write()
        if show:
            config.return_expired_if_not_cleaned_up()
        descriptor.enable_time_to_live(config.build())
        return self.store.state(descriptor)


@pytest.fixture
def clocked():
    return Clocked()


ONE_VALUE = {
    "value": (ValueStateDescriptor, (), "update", "value"),
    "reducing": (ReducingStateDescriptor, (lambda a, b: a + b,), "add", "get"),
    "aggregating": (AggregatingStateDescriptor, (Sum(),), "add", "get"),
}


@pytest.fixture(params=ONE_VALUE)
def one(request, clocked):
    kind, arguments, write, read = ONE_VALUE[request.param]

    def make(**options):
        state = clocked.state(kind("state", *arguments), **options)
        return getattr(state, write), getattr(state, read)

    return make


def test_s79_a_value_is_expired_when_last_access_plus_ttl_is_now(clocked, one):
    write, read = one()
    write(1)
    clocked.now = 9
    assert read() == 1
    clocked.now = 10
    assert read() is None


def test_s79_reads_do_not_extend_a_lifetime_unless_asked_to(clocked, one):
    write, read = one()
    write(1)
    clocked.now = 5
    read()
    clocked.now = 10
    assert read() is None


def test_s79_with_on_read_and_write_reads_extend_a_lifetime(clocked, one):
    write, read = one(renew=True)
    write(1)
    for clocked.now in (9, 18, 27):
        assert read() == 1
    clocked.now = 37
    assert read() is None


def test_s80_an_expired_value_may_be_seen_once(clocked, one):
    write, read = one(show=True)
    write(1)
    clocked.now = 10
    assert read() == 1
    assert read() is None


def test_adding_to_an_expired_value_starts_afresh(clocked):
    for descriptor in (ReducingStateDescriptor("r", lambda a, b: a + b), AggregatingStateDescriptor("a", Sum())):
        clocked.now = 0
        state = clocked.state(descriptor)
        state.add(1)
        clocked.now = 5
        state.add(1)
        clocked.now = 14
        assert state.get() == 2
        clocked.now = 15
        state.add(5)
        assert state.get() == 5


def test_a_value_with_a_lifetime_can_be_unset_and_has_its_default(clocked):
    state = clocked.state(ValueStateDescriptor("state", default=7))
    state.update(1)
    state.update(None)
    assert state.value() == 7


def test_s81_list_elements_expire_one_by_one(clocked):
    state = clocked.state(ListStateDescriptor("list"))
    state.add("a")
    clocked.now = 5
    state.add_all(["b", "c"])
    clocked.now = 10
    assert state.get() == ["b", "c"]
    state.update(["d"])
    clocked.now = 19
    assert list(state) == ["d"]
    clocked.now = 20
    assert list(state) == []
    assert len(state.table) == 0


def test_s81_list_elements_may_be_seen_once_or_renewed(clocked):
    shown = clocked.state(ListStateDescriptor("shown"), show=True)
    renewed = clocked.state(ListStateDescriptor("renewed"), renew=True)
    for state in (shown, renewed):
        state.add("a")
    clocked.now = 9
    assert renewed.get() == ["a"]
    clocked.now = 11
    assert shown.get() == ["a"]
    assert shown.get() == []
    assert renewed.get() == ["a"]


def test_s81_map_entries_expire_one_by_one(clocked):
    state = clocked.state(MapStateDescriptor("map"))
    state.put("a", 1)
    clocked.now = 5
    state.put("b", 2)
    assert dict(state.items()) == {"a": 1, "b": 2}
    clocked.now = 10
    assert state.get("a") is None
    assert "a" not in state
    assert list(state.keys()) == ["b"]
    assert list(state.values()) == [2]
    clocked.now = 15
    assert state.is_empty()
    assert len(state.table) == 0


def test_s81_map_entries_may_be_seen_once_or_renewed(clocked):
    shown = clocked.state(MapStateDescriptor("shown"), show=True, cleanup=0)
    renewed = clocked.state(MapStateDescriptor("renewed"), renew=True)
    for state in (shown, renewed):
        state.put_all({"a": 1, "b": 2})
    clocked.now = 9
    assert renewed.get("a") == 1
    clocked.now = 11
    assert dict(renewed.items()) == {"a": 1}
    assert shown.get("a") == 1
    assert shown.get("a") is None
    assert dict(shown.items()) == {"b": 2}
    assert shown.is_empty()


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_merged_values_live_as_long_as_the_last_of_them(clocked, kind):
    make, arguments, write, read = ONE_VALUE[kind]
    config = StateTtlConfig.new_builder(10).build()
    descriptor = make("state", *arguments)
    descriptor.enable_time_to_live(config)
    state = clocked.store.namespaced(descriptor)
    for clocked.now, state.namespace in ((0, "early"), (6, "late"), (2, "between")):
        getattr(state, write)(1)
    clocked.now = 6
    clocked.store.merge_namespaces(descriptor, "all", ["early", "late", "between"])
    state.namespace, clocked.now = "all", 15
    assert getattr(state, read)() == 3
    clocked.now = 16
    assert getattr(state, read)() is None


def test_a_full_snapshot_leaves_expired_entries_out(clocked):
    value = clocked.state(ValueStateDescriptor("value"))
    entries = clocked.state(MapStateDescriptor("map"))
    value.update(1)
    entries.put("a", 1)
    clocked.now = 5
    entries.put("b", 2)
    clocked.now = 12
    (rows,) = clocked.store.snapshot().groups.values()
    assert rows == {"map": [("key", None, {"b": (2, 5)})]}


def test_every_access_cleans_up_a_little(clocked):
    state = clocked.state(ValueStateDescriptor("value"), cleanup=5)
    for clocked.store.current_key in range(100):
        state.update(1)
    clocked.now = 10
    sizes = [len(state.table)]
    clocked.store.current_key = "other"
    for _ in range(50):
        state.value()
        sizes.append(len(state.table))
    assert sizes[-1] == 0
    assert max(before - after for before, after in pairwise(sizes)) <= 5


def test_a_large_map_does_not_make_every_access_slow(clocked, monkeypatch):
    looked_at = []
    monkeypatch.setattr(ttl, "sweep", lambda kind, stored, horizon: looked_at.append(len(stored)) or stored)
    state = clocked.state(MapStateDescriptor("map"), cleanup=5)
    state.put_all((i, i) for i in range(1000))
    for clocked.now in range(1000):
        state.get(0)
    assert 4000 < sum(looked_at) <= 5 * 1000 + 1000


def test_cleaning_up_can_be_turned_off(clocked):
    state = clocked.state(ValueStateDescriptor("value"), cleanup=0)
    for clocked.store.current_key in range(10):
        state.update(1)
    clocked.now = 10
    clocked.store.current_key = "other"
    for _ in range(50):
        state.value()
    assert len(state.table) == 10


@pytest.mark.parametrize("with_ttl_first", [True, False])
def test_a_lifetime_can_be_given_and_taken_away_between_runs(with_ttl_first):
    def declare(clocked, with_ttl):
        descriptors = [ValueStateDescriptor("value"), ListStateDescriptor("list"), MapStateDescriptor("map")]
        return [clocked.state(d) if with_ttl else clocked.store.state(d) for d in descriptors]

    before, after = Clocked(), Clocked()
    value, elements, entries = declare(before, with_ttl_first)
    value.update(1)
    elements.add(2)
    entries.put("a", 3)
    after.store.restore([before.store.snapshot()])
    after.now = 5
    value, elements, entries = declare(after, not with_ttl_first)
    assert (value.value(), elements.get(), dict(entries.items())) == (1, [2], {"a": 3})
    after.now = 15
    left = (value.value(), elements.get(), dict(entries.items()))
    assert left == ((1, [2], {"a": 3}) if with_ttl_first else (None, [], {}))


Step = st.tuples(st.sampled_from("rwa"), st.integers(0, 3), st.integers(1, 6))


@pytest.mark.parametrize("backend", ["hashmap"], indirect=True)
@given(st.lists(Step), st.booleans())
def test_values_live_as_long_as_an_oracle_says(steps, renew):
    clocked = Clocked()
    state, oracle = clocked.state(ValueStateDescriptor("value"), renew=renew, cleanup=1), {}
    for step, key, number in steps:
        clocked.store.current_key = key
        value, at = oracle.get(key, (None, -100))
        if at + 10 <= clocked.now:
            value = None
        if step == "r":
            assert state.value() == value
            if renew and value is not None:
                oracle[key] = value, clocked.now
        elif step == "w":
            state.update(number)
            oracle[key] = number, clocked.now
        else:
            clocked.now += number
