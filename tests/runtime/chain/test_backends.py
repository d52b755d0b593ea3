"""A task looks at its memory, and fails while there is some left."""

import pytest

from funken.errors import StateTooLarge
from funken.operators.base import OperatorContext
from funken.runtime.chain.chain import TaskBackends
from funken.state.backend import StateSettings
from funken.state.descriptors import ValueStateDescriptor
from funken.state.keyed import KeyedStateStore
from funken.timing.timers import InternalTimerService

GIB, PAGE = 2**30, 4096


class Machine:
    """What the system's files say."""

    def __init__(self, used=GIB, total=64 * GIB, free=32 * GIB, most=None, usage=0, cached=0):
        self.files = {
            "/proc/self/statm": f"999999 {used // PAGE} 7 1 0 5 0",
            "/proc/meminfo": f"MemTotal: {total // 1024} kB\nMemAvailable: {free // 1024} kB\n",
            "/sys/fs/cgroup/memory.max": "max" if most is None else str(most),
            "/sys/fs/cgroup/memory.current": str(usage),
            "/sys/fs/cgroup/memory.stat": f"anon 5\nactive_file {cached // 2}\ninactive_file {cached - cached // 2}\n",
        }
        self.looks = 0

    def read(self, path):
        self.looks += path == "/proc/self/statm"
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]


def backends(machine, **settings):
    made = TaskBackends(StateSettings(**settings), 0, machine.read)
    for name, count in (("few", 2), ("many", 5)):
        context = OperatorContext(name, 0, 1, 8, lambda: 0)
        if settings.get("backend") == "rocksdb":
            context.keyed = KeyedStateStore(8, range(8), lambda: 0)
            made._contexts.append(context)
        else:
            context.keyed = KeyedStateStore(8, range(8), lambda: 0, made.make(context, range(8)))
        context.timers = InternalTimerService(lambda: 0, 8)
        state = context.keyed.state(ValueStateDescriptor("v"))
        for key in range(count):
            context.keyed.current_key = key
            state.update(key)
            context.timers.register_event_time_timer(key, None, key)
    return made


def test_a_process_that_uses_more_than_it_may_says_who_holds_what():
    machine = Machine(used=3 * GIB)
    made = backends(machine, process_memory=2 * GIB)
    message = (
        "too little memory left for the state of operator 'many': this process uses 3,072 MiB, it may use 2,048 MiB. "
        "The state of this task: 'many' 10 entries, 'few' 4 entries. Set state.backend.type: rocksdb"
    )
    with pytest.raises(StateTooLarge, match=message):
        made.watch(5000)
    machine.files["/proc/self/statm"] = f"1 {GIB // PAGE} 1"
    made.watch(5999)
    assert machine.looks == 1, "it looks once a second"
    made.watch(6000)
    assert machine.looks == 2


@pytest.mark.parametrize(
    "machine",
    [Machine(free=GIB), Machine(most=4 * GIB, usage=4 * GIB - 1000, cached=2000)],
    ids=["machine", "container"],
)
def test_it_fails_before_the_machine_or_the_container_is_full(machine):
    with pytest.raises(StateTooLarge, match="the container's memory .* are free"):
        backends(machine).watch(0)


@pytest.mark.parametrize(
    "machine",
    [Machine(), Machine(most=4 * GIB, usage=4 * GIB - 1000, cached=GIB), Machine(most=2**62, usage=GIB)],
    ids=["machine", "files in the cache of a container", "a limit that is none"],
)
def test_memory_that_is_free_or_can_be_is_no_reason(machine):
    backends(machine).watch(0)


def test_a_system_that_does_not_say_is_not_asked_for_more():
    machine = Machine()
    machine.files.clear()
    backends(machine).watch(0)


def test_on_rocksdb_it_is_the_timers_that_take_memory():
    with pytest.raises(StateTooLarge, match="Its timers are in memory"):
        backends(Machine(free=0), backend="rocksdb").watch(0)
