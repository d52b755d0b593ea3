"""Mistakes of newcomers, a row each: a wrong program, and the parts of all that its author is told."""

from concurrent.futures import wait

import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment
from funken.plan.unexecuted import started
from tests.support.mistakes import said

HEAD = "from funken import *\nenv = StreamExecutionEnvironment.create_local_environment(1)\n"
STAMPED = "ws = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: 1700000000000 + v * 1000)\n"
KEYED = """class K(KeyedProcessFunction):
    def open(self, ctx):
        self.s = ctx.{state}
    def process_element(self, value, ctx):
        {body}
        yield value
"""


def keyed(state, body):
    """Return a program with a keyed function."""
    return f"{KEYED.format(state=state, body=body)}env.from_collection([1]).key_by(str).process(K()).print()\nenv.execute()"


MISTAKES = {
    "a flat_map that returns a number": (
        "env.from_collection([1]).flat_map(lambda x: x * 2).print()\nenv.execute()",
        ["operator 'flat_map'", "but returned 2", "Return a list of results", "The operator is in job.py, line 3."],
    ),
    "a coroutine as a record": (
        "async def f(x): return x\nenv.from_collection([1]).map(lambda x: f(x)).print()\nenv.execute()",
        ["returned a coroutine", "Await it in an AsyncFunction. The operator is in job.py, line 4."],
    ),
    "windows without timestamps": (
        "env.from_collection([1]).key_by(str).window(TumblingEventTimeWindows.of('5 s')).reduce(max).print()\nenv.execute()",
        ["Call assign_timestamps_and_watermarks(...)", "The operator is in job.py, line 3."],
    ),
    "two operators with one uid": (
        "env.from_collection([1]).map(str).uid('a').map(str).uid('a').print()\nenv.execute()",
        ["uid 'a' is used by 'map' (job.py, line 3) and 'map' (job.py, line 3)"],
    ),
    "a dict with other names than its row": (
        "row = Types.ROW_NAMED(['a', 'c'], [Types.INT(), Types.STRING()])\n"
        "env.from_collection([1]).map(lambda x: {'a': x, 'b': 't'}, row).print()\nenv.execute()",
        [
            "operator 'map': {'a': 1, 'b': 't'} has fields that its declared type",
            "lacks: 'b'",
            "same names",
            "job.py, line 4",
        ],
    ),
    "a number that is too large for its type": (
        "env.from_collection([2**40]).map(lambda x: x, Types.INT()).print()\nenv.execute()",
        ["1099511627776 has more bits than its declared type Integer and becomes 0", "Types.LONG()", "job.py, line 3"],
    ),
    "keys of two types in a join": (
        STAMPED + "a, b = (env.from_collection([1]).assign_timestamps_and_watermarks(ws) for _ in range(2))\n"
        "w = TumblingEventTimeWindows.of('5 s')\n"
        "a.join(b).where(lambda x: str(x)).equal_to(lambda x: x).window(w).apply(lambda x, y: x).print()\nenv.execute()",
        [
            "operator 'join'",
            "records of the two never meet: '1' (str) by '<lambda>' (job.py, line 6), 1 (int)",
            "str() or int()",
        ],
    ),
    "keys of two types in connected streams": (
        "class C(KeyedCoProcessFunction):\n    def process_element1(self, v, ctx): yield v\n"
        "    def process_element2(self, v, ctx): yield v\n"
        "one, two = env.from_collection([1]).key_by(str), env.from_collection([1]).key_by(abs)\n"
        "one.connect(two).process(C()).print()\nenv.execute()",
        ["operator 'co_process': its inputs have keys of different types"],
    ),
    "a map that prints": (
        "env.from_collection([1]).map(print).print()\nenv.execute()",
        [
            "operator 'map': its function 'print' returns nothing, so each result is None",
            "use for_each()",
            "job.py, line 3",
        ],
    ),
    "a filter that prints": (
        "env.from_collection([1]).filter(lambda x: print(x)).print()\nenv.execute()",
        ["its function '<lambda>' (job.py, line 3) returns nothing, so no record is kept"],
    ),
    "an iterator of the program": (
        "ids = iter(range(9))\nenv.from_collection([1]).map(lambda x: (next(ids), x)).print()\nenv.execute()",
        ["(job.py, line 4) changes 'ids', of which each worker has a copy"],
    ),
    "an accumulator in self": (
        "class A(AggregateFunction):\n    def create_accumulator(self): self.n = 0\n    def add(self, v, acc): return acc\n"
        "    def get_result(self, acc): return self.n\n    def merge(self, a, b): return a\n"
        "env.from_collection([1]).key_by(str).count_window(1).aggregate(A())",
        ["its function 'create_accumulator' (job.py, line 4) returns nothing. Return the accumulator."],
    ),
    "a scalar for a list state": (
        keyed("get_list_state(ListStateDescriptor('s', Types.INT()))", "self.s.update(value)"),
        ["operator 'process'", "a ListState takes a list of values here, but got 1. add(value) appends one", "line 7"],
    ),
    "a text for a list state": (
        keyed("get_list_state(ListStateDescriptor('s'))", "self.s.add_all('abc')"),
        ["a ListState takes a list of values here, but got 'abc'"],
    ),
    "the runtime context of PyFlink's Java sibling": (
        keyed("get_state(ValueStateDescriptor('s'))", "self.get_runtime_context()"),
        ["The runtime context comes to open(self, runtime_context): ask it for states there"],
    ),
    "times with and without a zone": (
        "from datetime import datetime, timezone\n"
        "times = [datetime(2024, 1, 1), datetime(2024, 1, 2, tzinfo=timezone.utc)]\n"
        "env.from_collection(times).key_by(lambda x: 0).reduce(lambda a, b: max(a, b)).print()\nenv.execute()",
        ["operator 'reduce'", "One of them has a time zone, the other has none", 'job.py", line 5'],
    ),
    "a Decimal and a float": (
        "from decimal import Decimal\nenv.from_collection([Decimal('1.5'), 2.5]).key_by(lambda x: 0)"
        ".reduce(lambda a, b: a + b).print()\n"
        "env.execute()",
        ["convert one, as with Decimal(str(value)) or float(value)"],
    ),
    "a reduce that gives a dict": (
        "env.from_collection([('a', 1)] * 3).key_by(len).reduce(lambda a, b: {'n': a[1] + b[1]}).print()\nenv.execute()",
        ["The result so far is the dict {'n': 2}, and the record a tuple"],
    ),
    "a timestamp assigner with swapped parameters": (
        "ws = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda ts, v: v[0])\n"
        "env.from_collection([(1, 2)]).assign_timestamps_and_watermarks(ws).print()\nenv.execute()",
        ["called with (record, timestamp), in this order"],
    ),
    "another environment": (
        "env.from_collection([1]).print()\nStreamExecutionEnvironment.create_local_environment(1).execute()",
        ["Cannot execute.", "The operators of job.py, line 3 are in another environment: call its execute()"],
    ),
    "a text for a mode": (
        "env.enable_checkpointing(1000, 'EXACTLY_ONCE')",
        [
            "set_checkpointing_mode() needs a CheckpointingMode, but got 'EXACTLY_ONCE'. Give CheckpointingMode.EXACTLY_ONCE"
        ],
    ),
    "a text for a broadcast state": (
        "class B(BroadcastProcessFunction):\n    def process_element(self, v, ctx): yield v\n"
        "    def process_broadcast_element(self, v, ctx): ctx.get_broadcast_state('rules').put(1, v)\n"
        "d = MapStateDescriptor('rules')\n"
        "env.from_collection([1]).connect(env.from_collection([2]).broadcast(d)).process(B()).print()\nenv.execute()",
        ["get_broadcast_state() needs a MapStateDescriptor, but got 'rules'", "Give the descriptor"],
    ),
    "seconds between checkpoints": (
        "env.enable_checkpointing(10)",
        [
            "job.py, line 3: option 'execution.checkpointing.interval' is 10 ms: a number is milliseconds",
            "such as '10 s'",
        ],
    ),
    "seconds of a timeout of checkpoints": (
        "env.get_checkpoint_config().set_checkpoint_timeout(30)",
        ["option 'execution.checkpointing.timeout' is 30 ms: a number is milliseconds"],
    ),
    "seconds of disorder": (
        "ws = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner(lambda v, _: 1700000000000)\n"
        "env.from_collection([1]).assign_timestamps_and_watermarks(ws).print()\nenv.execute()",
        ["operator 'timestamps'", "a disorder of 5 ms: a number is milliseconds", "job.py, line 4"],
    ),
    "seconds of lateness": (
        STAMPED + "windows = env.from_collection([1]).assign_timestamps_and_watermarks(ws).key_by(str).window("
        "TumblingEventTimeWindows.of('5 s'))\nwindows.allowed_lateness(5).reduce(max).print()\nenv.execute()",
        ["its allowed lateness is 5 ms: a number is milliseconds"],
    ),
    "seconds of an interval join": (
        "class J(ProcessJoinFunction):\n    def process_element(self, one, two, ctx): yield one\n"
        + STAMPED
        + "a, b = (env.from_collection([1]).assign_timestamps_and_watermarks(ws).key_by(str) for _ in range(2))\n"
        "a.interval_join(b).between(-5, 5).process(J()).print()\nenv.execute()",
        ["operator 'interval_join': records of its inputs meet within 5 ms"],
    ),
    "seconds of a pattern": (
        "from funken.cep import CEP, Pattern\n" + STAMPED + "p = Pattern.begin('a').followed_by('b').within(10)\n"
        "CEP.pattern(env.from_collection([1, 2]).assign_timestamps_and_watermarks(ws), p).select(lambda m: m)"
        ".print()\nenv.execute()",
        ["its matches are within 10 ms: a number is milliseconds"],
    ),
    "seconds of a lifetime": (
        "life = StateTtlConfig.new_builder(60).build()\nd = ValueStateDescriptor('s')\nd.enable_time_to_live(life)\n"
        + keyed("get_state(d)", "self.s.update(1)"),
        ["operator 'process': its state 's' lives for 60 ms: a number is milliseconds", "'60 s'"],
    ),
    "a pattern zero times": (
        "from funken.cep import Pattern\nPattern.begin('a').times(0)",
        ["pattern 'a'", "Give times(1) or more"],
    ),
    "a key of two names": (
        "env.from_collection([{'a': 1}]).key_by(['a', 'b'])",
        ["Write lambda record: (record['a'], record['b'])"],
    ),
    "a trigger without windows": (
        "env.from_collection([1]).key_by(str).trigger(CountTrigger.of(2))",
        ["windows have it, so call window() right before it"],
    ),
    "more types than names": (
        "Types.ROW_NAMED(['a'], [Types.INT(), Types.STRING()])",
        ["1 names ['a'] were given for 2 types", "Give a name for each type"],
    ),
    "a csv with another delimiter": (
        "import tempfile, os\npath = os.path.join(tempfile.mkdtemp(), 'a.csv')\nopen(path, 'w').write('item;n\\ntea;1\\n')\n"
        "env.read_csv(path).print()\nenv.execute()",
        ["each line is one field with a ';' in it. If that is the delimiter, give delimiter=';'"],
    ),
    "a list as one element of a batch program": (
        "from funken.dataset import ExecutionEnvironment\n"
        "ExecutionEnvironment.create_local_environment(1).from_elements([1, 2]).map(lambda x: x + 1).collect()",
        ["operator 'map'", "The record is a list: from_collection([...]) makes a record of each of its items"],
    ),
    "a setter of a parameter": (
        "from funken.ml import KMeans\nKMeans().set_k(2)",
        ["Parameters are arguments: KMeans(n_clusters=8"],
    ),
    "an error inside of Funken": (
        "from funken.dataset import ExecutionEnvironment\nfrom funken.graph import Graph\n"
        "Graph.from_collection(ExecutionEnvironment.get_execution_environment(), 5, 6)",
        [
            "It was raised in Graph.from_collection(env=<funken.dataset",
            "edges=5, vertices=6",
            "Look at these arguments first",
        ],
    ),
    "all records of an endless input": (
        "records = env.from_source(DataGeneratorSource(str), None, 'd').execute_and_collect('endless')\n"
        "records.__length_hint__()\nrecords.close()",
        ["job 'endless': all of its records are asked for at once (job.py, line 4), but its input has no end"],
    ),
    "two states of one name": (
        """class K(KeyedProcessFunction):
    def open(self, ctx):
        self.a = ctx.get_state(ValueStateDescriptor("s"))
        self.b = ctx.get_state(ValueStateDescriptor("s"))
    def process_element(self, value, ctx):
        self.a.update(value)
        self.b.update(value)
        yield value
env.from_collection([1]).key_by(str).process(K()).print()
env.execute()""",
        [
            "operator 'process': its state 's' is described twice, and both are one state",
            "a name of its own",
            "line 11",
        ],
    ),
    "two states of one name and other types": (
        """class K(KeyedProcessFunction):
    def open(self, ctx):
        self.a = ctx.get_state(ValueStateDescriptor("s", Types.INT()))
        self.b = ctx.get_state(ValueStateDescriptor("s", Types.STRING()))
    def process_element(self, value, ctx):
        yield value
env.from_collection([1]).key_by(str).process(K()).print()
env.execute()""",
        ["operator 'process': its state 's' is described twice, with the types Integer and String", "line 6"],
    ),
    "a value that changes after its update": (
        keyed("get_state(ValueStateDescriptor('s'))", "seen = []; self.s.update(seen); seen.append(value)"),
        ["its function 'process_element' (job.py, line 7) changes a value of self.s in place", "Store the value after"],
    ),
    "a value of a map state that changes": (
        keyed("get_map_state(MapStateDescriptor('s'))", "n = self.s.get('a') or {}; n[value] = 1"),
        ["changes a value of self.s in place and does not store it"],
    ),
    "an element added to the list of a list state": (
        keyed("get_list_state(ListStateDescriptor('s'))", "self.s.get().append(value)"),
        ["changes a value of self.s in place and does not store it"],
    ),
    "a state that is compared": (
        keyed("get_state(ValueStateDescriptor('s'))", "value = 0 if self.s is None else 1"),
        ["(job.py, line 7) takes self.s for a value, but it is the state itself"],
    ),
    "a state as a condition": (
        keyed("get_list_state(ListStateDescriptor('s'))", "value = 1 if not self.s else 2"),
        ["takes self.s for a value, but it is the state itself"],
    ),
    "a method of a state that is not called": (
        keyed("get_state(ValueStateDescriptor('s'))", "value = 1 if self.s.value else 2"),
        ["takes self.s.value for a value, but it is a method, which is always true. Call it"],
    ),
    "a count in self": (
        keyed("get_state(ValueStateDescriptor('s'))", "self.n = self.n + value; value = self.n")
        .replace("self.s = ctx", "self.n, self.s = 0, ctx")
        .replace("        yield value", "        yield value\n    def on_timer(self, at, ctx): yield at"),
        ["changes self.n, which all keys of a subtask share"],
    ),
    "a value of a state of connected streams that changes": (
        """class C(KeyedCoProcessFunction):
    def open(self, ctx):
        self.s = ctx.get_map_state(MapStateDescriptor("s"))
    def process_element1(self, v, ctx): yield v
    def process_element2(self, v, ctx):
        n = self.s.get("a") or {}
        n["x"] = v
one, two = (env.from_collection([1]).key_by(str) for _ in range(2))
one.connect(two).process(C()).print()
env.execute()""",
        ["its function 'process_element2' (job.py, line 9) changes a value of self.s in place"],
    ),
    "a value of a state of a map that changes": (
        """class M(MapFunction):
    def open(self, ctx):
        self.s = ctx.get_list_state(ListStateDescriptor("s"))
    def map(self, v):
        self.s.get().append(v)
        return v
env.from_collection([1]).key_by(str).map(M()).print()
env.execute()""",
        ["its function 'map' (job.py, line 7) changes a value of self.s in place"],
    ),
    "a value of a state of windows that changes": (
        """class W(ProcessWindowFunction):
    def process(self, key, ctx, elements):
        seen = ctx.global_state().get_state(ValueStateDescriptor("s"))
        all_of_them = seen.value() or []
        all_of_them.append(key)
        yield key
env.from_collection([1]).key_by(str).count_window(1).process(W()).print()
env.execute()""",
        ["operator 'window process': its function 'process' (job.py, line 7) changes a value of seen in place"],
    ),
    "functions of two inputs that print": (
        "class C(CoProcessFunction):\n    def process_element1(self, v, ctx): print(v)\n"
        "    def process_element2(self, v, ctx): print(v)\n"
        "env.from_collection([1]).connect(env.from_collection([2])).process(C()).print()\nenv.execute()",
        ["operator 'co_process': its function 'process_element1' (job.py, line 4) yields nothing, as the other one"],
    ),
    "a tag behind its record": (
        """tag = OutputTag("late")
class P(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, tag
split = env.from_collection([1]).process(P())
split.get_side_output(tag).print()
env.execute()""",
        ["(job.py, line 6) yields a record before tag, a tag", "The tag comes first: (tag, record)"],
    ),
    "timers after seconds": (
        STAMPED
        + keyed(
            "get_state(ValueStateDescriptor('s'))",
            "ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60)",
        )
        .replace("env.from_collection([1])", "env.from_collection([1]).assign_timestamps_and_watermarks(ws)")
        .replace("        yield value", "        yield value\n    def on_timer(self, at, ctx): yield at"),
        ["operator 'process': its first timer is due after 60 ms", "Add 60_000 for seconds", "line 11"],
    ),
    "a length of time as the time of a timer": (
        keyed(
            "get_state(ValueStateDescriptor('s'))", "ctx.timer_service().register_processing_time_timer(5000)"
        ).replace("        yield value", "        yield value\n    def on_timer(self, at, ctx): yield at"),
        ["its first timer is set for 5000", "a timer has a point in time, so it is due at once"],
    ),
    "a timer after no watermark": (
        STAMPED
        + keyed(
            "get_state(ValueStateDescriptor('s'))",
            "ctx.timer_service().register_event_time_timer(ctx.timer_service().current_watermark() + 5000)",
        )
        .replace("env.from_collection([1])", "env.from_collection([1]).assign_timestamps_and_watermarks(ws)")
        .replace("        yield value", "        yield value\n    def on_timer(self, at, ctx): yield at"),
        ["its first timer is set for a time before all times", "there is no watermark yet"],
    ),
    "seconds of idleness": (
        "WatermarkStrategy.no_watermarks().with_idleness(30)",
        ["job.py, line 3: with_idleness(): a split counts as idle after 30 ms: a number is milliseconds"],
    ),
    "seconds of a request": (
        "class A(AsyncFunction):\n    async def async_invoke(self, value): return [value]\n"
        "AsyncDataStream.unordered_wait(env.from_collection([1]), A(), 5)",
        ["job.py, line 5: a request of AsyncDataStream fails after 5 ms: a number is milliseconds"],
    ),
    "seconds in the text of an option": (
        "env.get_configuration().set('restart-strategy.fixed-delay.delay', '10')",
        ["job.py, line 3: option 'restart-strategy.fixed-delay.delay' is 10 ms: a number is milliseconds"],
    ),
    "sessions without timestamps": (
        "env.from_collection([1]).key_by(str).window(EventTimeSessionWindows.with_gap('5 s')).reduce(max).print()\nenv.execute()",
        [
            "operator 'window reduce'",
            "its EventTimeSessionWindows(gap=5000) gets records without timestamps",
            "Call assign_timestamps_and_watermarks(...)",
        ],
    ),
    "sessions with a trigger and without timestamps": (
        "windows = env.from_collection([1]).key_by(str).window(EventTimeSessionWindows.with_gap('5 s'))\n"
        "windows.trigger(EventTimeTrigger.create()).reduce(max).print()\nenv.execute()",
        ["gets records without timestamps", "Call assign_timestamps_and_watermarks(...)"],
    ),
    "a text for the size of a window": (
        "TumblingEventTimeWindows('5 s')",
        ["the size is '5 s', not a whole number of ms. TumblingEventTimeWindows.of() takes any duration"],
    ),
    "conditions of a pattern that exclude each other": (
        "from funken.cep import Pattern\nPattern.begin('a').where(lambda e: e > 5).where(lambda e: e < 3)",
        ["job.py, line 4: pattern 'a': no event is both event > 5 and event < 3, so it never matches"],
    ),
    "filters that exclude each other": (
        "env.from_collection([{'a': 1}]).filter(lambda e: e['a'] == 1).filter(lambda e: e['a'] == 2).print()\nenv.execute()",
        ["line 3: filter(): no record passes both event['a'] == 1 and event['a'] == 2"],
    ),
    "a text that is to change": (
        "def clean(line):\n    line.strip()\n    return line\nenv.from_collection([' a ']).map(clean).print()\nenv.execute()",
        ["operator 'map': its function 'clean' (job.py, line 4) drops the result of strip()", "text = text.strip(...)"],
    ),
    "a filter that no record passes": (
        "env.from_collection([4]).filter(lambda x: x > 5 and x < 3).print()\nenv.execute()",
        ["line 3: filter(): no record passes both event > 5 and event < 3"],
    ),
    "a filter that every record passes": (
        "env.from_collection(['a']).filter(lambda x: x != 'a' or x != 'b').print()\nenv.execute()",
        [
            "line 3: filter(): every record passes event != 'a' or event != 'b', so none is dropped",
            "Join them with and",
        ],
    ),
    "a filter with a constant": (
        "def wanted(kind):\n    return kind == 'a' or 'b'\nenv.from_collection(['c']).filter(wanted).print()\nenv.execute()",
        ["line 5: filter(): every record passes event == 'a' or 'b'", "use in"],
    ),
    "a pattern before its stream": (
        "from funken.cep import CEP, Pattern\nCEP.pattern(Pattern.begin('a'), env.from_collection([1]))",
        ["CEP.pattern() needs a stream, then a Pattern"],
    ),
    "the name of a class of events": (
        "from funken.cep import Pattern\nPattern.begin('a').subtype('A')",
        ["pattern 'a': subtype() needs a class, but got 'A'"],
    ),
    "a list of events as one": (
        "from funken.cep import CEP, Pattern\nCEP.pattern(env.from_collection([1]), Pattern.begin('a'))"
        ".in_processing_time().select(lambda m: m['a'] + 1).print()\nenv.execute()",
        ["operator 'pattern'", "write match[name][0] for the first", 'job.py", line 4'],
    ),
    "a random key": (
        "import random\nenv.from_collection([1]).key_by(lambda x: random.randint(0, 9))",
        ["job.py, line 4: key_by(): its function draws random.randint(): a record has another key each time"],
    ),
    "a partitioner without the number of partitions": (
        "env.from_collection([1]).partition_custom(lambda k: k, lambda x: x)",
        ["partition_custom() calls its function with 2 arguments (the key, the number of partitions)"],
    ),
    "streams that nobody reads": (
        "env.from_collection([1]).key_by(str)\nenv.execute()",
        ["operator 'collection': its results go nowhere: no operator reads them", "line 3"],
    ),
    "a window function that prints": (
        "class W(ProcessWindowFunction):\n    def process(self, key, ctx, elements): print(key)\n"
        "env.from_collection([1]).key_by(str).count_window(1).process(W()).print()\nenv.execute()",
        ["operator 'window process': its function 'process' (job.py, line 4) yields nothing"],
    ),
    "a tuple of the key as the result of a window": (
        "env.from_collection([1]).key_by(str).count_window(1).apply(lambda k, w, e: (k, k)).print()\nenv.execute()",
        [
            "operator 'window apply'",
            "'<lambda>' (job.py, line 3) returns a tuple that begins with k, and each part is a result",
        ],
    ),
    "an accumulator that is the result of append": (
        "class A(AggregateFunction):\n    def create_accumulator(self): return []\n"
        "    def add(self, v, acc): return acc.append(v)\n    def get_result(self, acc): return acc\n"
        "    def merge(self, a, b): return a + b\nenv.from_collection([1]).key_by(str).count_window(1).aggregate(A())",
        ["line 8: aggregate(): its function 'add' (job.py, line 5) returns the result of append(), which is None"],
    ),
    "a tuple that changes": (
        "class A(AggregateFunction):\n    def create_accumulator(self): return (0,)\n    def add(self, v, acc):\n"
        "        acc[0] += v\n        return acc\n    def get_result(self, acc): return acc\n"
        "    def merge(self, a, b): return a\n"
        "env.from_collection([1]).key_by(str).count_window(1).aggregate(A()).print()\nenv.execute()",
        ["A tuple cannot change: make a new one", 'job.py", line 6'],
    ),
    "a method that is misspelt": (
        "class T(TimestampAssigner):\n    def extractTimestamp(self, value, at): return value\n"
        "ws = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(T())\n"
        "env.from_collection([1]).assign_timestamps_and_watermarks(ws).print()\nenv.execute()",
        ["operator 'timestamps'", "T does not define extract_timestamp(); it has extractTimestamp()", "line 6"],
    ),
    "a timer of the context": (
        keyed("get_state(ValueStateDescriptor('s'))", "ctx.register_event_time_timer(5)"),
        ["The timer service has it: ctx.timer_service().register_event_time_timer()", "line 7"],
    ),
    "the key of a stream without keys": (
        "class P(ProcessFunction):\n    def process_element(self, v, ctx): yield ctx.get_current_key()\n"
        "env.from_collection([1]).process(P()).print()\nenv.execute()",
        ["Only a function of a keyed stream has a key: call key_by() before this operator"],
    ),
    "pairs of a map state": (
        keyed("get_map_state(MapStateDescriptor('s'))", "self.s.put('a', 1); [k for k, v in self.s]"),
        ["If a dict or a map state is gone through: that gives keys, items() gives pairs"],
    ),
    "the first item of an iterator": (
        "records = env.from_collection([1, 2]).execute_and_collect()\nrecords[0]",
        ["It gives each record once. Give execute_and_collect(limit=10) for a list"],
    ),
    "a text for a number of records": (
        "env.from_collection([1]).execute_and_collect('job', 'x')",
        ["limit of execute_and_collect() needs an int, but got 'x'"],
    ),
    "options in a text": ("env.configure('a=b')", ["options are a dict", "but got 'a=b'"]),
    "a setter of PyFlink": (
        "env.get_checkpoint_config().set_checkpoint_storage('file:///tmp/x')",
        ["configure({'execution.checkpointing.dir': folder}) of the environment sets it"],
    ),
    "an empty uid": ("env.from_collection([1]).map(str).uid('')", ["uid() got an empty text"]),
    "no format of a file source": (
        "FileSource.for_record_stream_format('text', '.')",
        ["a FileSource needs a FileFormat, but got 'text'"],
    ),
    "a generator without an index": (
        "DataGeneratorSource(lambda: 5)",
        ["DataGeneratorSource calls its function with 1 argument (the index), but '<lambda>' takes ()"],
    ),
    "numbers as names of columns": (
        "import tempfile, os\npath = os.path.join(tempfile.mkdtemp(), 'a.csv')\nopen(path, 'w').write('1,2\\n3,4\\n')\n"
        "env.read_csv(path).print()\nenv.execute()",
        [
            "its first line 1,2 is taken for the names of the columns, but has numbers. If it is a row, give header=False"
        ],
    ),
    "brokers under another name": (
        "from funken.connectors import SimpleStringSchema\nfrom funken.connectors.kafka import KafkaSource\n"
        "KafkaSource.builder().set_topics('t').set_property('bootstrap.server', 'localhost:1')"
        ".set_value_only_deserializer(SimpleStringSchema()).build()",
        ["a Kafka source has no brokers", "There is 'bootstrap.server': correct its name"],
    ),
    "a misspelt property of Kafka": (
        "from funken.connectors import SimpleStringSchema\nfrom funken.connectors.kafka import KafkaSource\n"
        "source = KafkaSource.builder().set_bootstrap_servers('localhost:1').set_topics('t').set_property('groupid', 'x')"
        ".set_value_only_deserializer(SimpleStringSchema()).build()\n"
        "env.from_source(source, WatermarkStrategy.no_watermarks(), 'k').print()\nenv.execute()",
        ["Kafka source: the client has no property 'groupid'. Did you mean 'group.id'?"],
    ),
    "keys of two types in a batch program": (
        "from funken.dataset import ExecutionEnvironment\nbatch = ExecutionEnvironment.create_local_environment(1)\n"
        "a, b = batch.from_elements(('1', 1)), batch.from_elements((1, 2))\na.join(b).where(0).equal_to(0).collect()",
        ["job.py, line 6: join(): where(0) is str, but equal_to(0) is int, so records of the two never meet"],
    ),
    "keys of two types by functions": (
        "from funken.dataset import ExecutionEnvironment\nbatch = ExecutionEnvironment.create_local_environment(1)\n"
        "a, b = batch.from_elements(('1', 1)), batch.from_elements((1, 2))\nkey = lambda x: x[0]\n"
        "a.join(b).where(key).equal_to(key).name('by key').collect()",
        ["operator 'by key': its inputs have keys of different types", "'1' (str) of where(), 1 (int) of equal_to()"],
    ),
    "keys of two types in groups": (
        "from funken.dataset import ExecutionEnvironment\nbatch = ExecutionEnvironment.create_local_environment(1)\n"
        "a, b = batch.from_elements(('1', 1)), batch.from_elements((1, 2))\nkey = lambda x: x[0]\n"
        "a.co_group(b).where(key).equal_to(key).using(lambda x, y: [1]).collect()",
        ["its inputs have keys of different types", "Convert one of them, as with str() or int()"],
    ),
    "a filter of a batch program that prints": (
        "from funken.dataset import ExecutionEnvironment\n"
        "ExecutionEnvironment.create_local_environment(1).from_elements(1).filter(lambda x: print(x)).collect()",
        ["job.py, line 4: filter(): its function '<lambda>' (job.py, line 4) returns nothing, so no record is kept"],
    ),
    "the length of a data set": (
        "from funken.dataset import ExecutionEnvironment\n"
        "len(ExecutionEnvironment.create_local_environment(1).from_elements(1))",
        ["A DataSet is a plan: collect() runs it"],
    ),
    "no streams to union": (
        "env.from_collection([1]).union().print()\nenv.execute()",
        ["job.py, line 3: union(): no stream is given", "stream.union(other)"],
    ),
    "a map that gives the result of append": (
        "env.from_collection([[1]]).map(lambda x: x.append(2)).print()\nenv.execute()",
        ["operator 'map': its function '<lambda>' (job.py, line 3) returns the result of append(), which is None"],
    ),
    "a state that is assigned": (
        keyed("get_state(ValueStateDescriptor('s'))", "self.s = value"),
        [
            "operator 'process': its function 'process_element' (job.py, line 7) assigns to self.s",
            "Store it with update()",
        ],
    ),
    "a number in an attribute": (
        keyed("get_state(ValueStateDescriptor('s'))", "self.n = getattr(self, 'n', 0) + 1; value = self.n"),
        ["operator 'process'", "(job.py, line 7) changes self.n, which all keys of a subtask share"],
    ),
    "a key by a wrong name": (
        "env.from_collection([{'a': i} for i in range(9)]).key_by(lambda x: x.get('b')).sum('a').print()\nenv.execute()",
        [
            "operator 'sum': the key of each",
            "'<lambda>' (job.py, line 3) gets 'b', but a record has the field 'a'",
            "Correct",
        ],
    ),
}
RIGHT = {
    "filters of several comparisons": (
        "import random\nnumbers = env.from_collection([4])\n"
        "numbers.filter(lambda x: 3 < x < 5 or x > 7).filter(lambda x: x < 9 and x != 5 or x is None).print()\n"
        "numbers.filter(lambda x: random.random() > 2 or random.random() < 2).print()\nenv.execute()"
    ),
    "a state that is let go": keyed("get_state(ValueStateDescriptor('s'))", "self.s.update(value)").replace(
        "def process", "def close(self):\n        self.s = None\n    def process"
    ),
    "an object with an update of its own": (
        "class Total(list):\n    def update(self, n):\n        self.append(n)\n        return self\n"
        "env.from_collection([1]).map(lambda n: Total([n])).map(lambda each: each.update(2)).print()\nenv.execute()"
    ),
    "a collection of no streams": "env.from_collection([1]).union(*[]).print()\nenv.execute()",
    "a key that some records have": (
        "env.from_collection([{'a': i, **({'b': 1} if i == 5 else {})} for i in range(9)]).key_by(lambda x: x.get('b'))"
        ".sum('a').print()\nenv.execute()"
    ),
    "a value stored after its change": keyed(
        "get_state(ValueStateDescriptor('s'))", "seen = self.s.value() or []; seen.append(value); self.s.update(seen)"
    ),
    "a value stored under another name": keyed(
        "get_state(ValueStateDescriptor('s'))",
        "seen = self.s.value() or []; seen.append(value); self.s.update(list(seen))",
    ),
    "a value stored in a loop": keyed(
        "get_map_state(MapStateDescriptor('s'))",
        "\n        for i in range(2):\n            n = self.s.get(i) or []\n            self.s.put(i, n)"
        "\n            n.append(i)",
    ),
    "a working copy": keyed(
        "get_list_state(ListStateDescriptor('s'))",
        "self.s.add(value); items = self.s.get(); items.sort(); items.append(0)",
    ),
    "rules by the second input": """class C(KeyedCoProcessFunction):
    def open(self, ctx):
        self.s = ctx.get_state(ValueStateDescriptor("s"))
    def process_element1(self, v, ctx): yield v, self.s.value()
    def process_element2(self, v, ctx): self.s.update(v)
one, two = (env.from_collection([1]).key_by(str) for _ in range(2))
one.connect(two).process(C()).print()
env.execute()""",
    "a copy in a timer": keyed(
        "get_list_state(ListStateDescriptor('s'))",
        "self.s.add(value); ctx.timer_service().register_event_time_timer(9)",
    ).replace(
        "        yield value",
        "        yield value\n    def on_timer(self, at, ctx):\n        n = self.s.get()\n        n.append(at)\n        yield n",
    ),
    "a key of a map state": keyed("get_map_state(MapStateDescriptor('s'))", "self.s.put(1, 1); value = 1 in self.s"),
    "a timer at the next watermark": (
        STAMPED
        + keyed(
            "get_state(ValueStateDescriptor('s'))",
            "ctx.timer_service().register_event_time_timer(ctx.timer_service().current_watermark() + 1); self.s.update(1)",
        )
        .replace("env.from_collection([1])", "env.from_collection([1]).assign_timestamps_and_watermarks(ws)")
        .replace("        yield value", "        yield value\n    def on_timer(self, at, ctx): yield at")
    ),
    "conditions that go together": (
        "from funken.cep import Pattern\n_ = Pattern.begin('a').where(lambda e: e > 3).where(lambda e: e < 5)\n"
        "_ = Pattern.begin('a').where(lambda e: e > 5).or_(lambda e: e < 3)"
    ),
    "short options": "env.set_buffer_timeout(5)\nenv.get_config().set_auto_watermark_interval(50)",
    "keys by calculation": (
        "import random\nbase = random.Random(1).random()\nenv.from_collection([1]).key_by(lambda x: x + base).print()\n"
        "env.execute()"
    ),
    "milliseconds by name": "env.enable_checkpointing('10 ms')",
    "small numbers of an example": (
        "ws = WatermarkStrategy.for_bounded_out_of_orderness(5).with_timestamp_assigner(lambda v, _: v)\n"
        "windows = env.from_collection([1]).assign_timestamps_and_watermarks(ws).key_by(str).window("
        "TumblingEventTimeWindows.of(5))\n"
        "windows.reduce(max).print()\nenv.execute()"
    ),
    "a dict of its row": "row = Types.ROW_NAMED(['a'], [Types.INT()])\nenv.from_collection([{'a': 1}, {}]).map(dict, row)."
    "print()\nenv.execute()",
    "a lambda that prints and goes on": "env.from_collection([1]).map(lambda x: print(x) or x).print()\nenv.execute()",
    "keys that may be equal": (
        "class C(KeyedCoProcessFunction):\n    def process_element1(self, v, ctx): yield v\n"
        "    def process_element2(self, v, ctx): yield v\n"
        "one, two = env.from_collection([1]).key_by(float), env.from_collection([1]).key_by(abs)\n"
        "one.connect(two).process(C()).print()\nenv.execute()"
    ),
    "a list for a list state": keyed("get_list_state(ListStateDescriptor('s'))", "self.s.add_all(['abc'])"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_author_is_told(mistake, caplog, capsys):
    program, parts = MISTAKES[mistake]
    told = said(f"{HEAD}{program}\n", caplog)

    assert [part for part in parts if part not in told] == [], told


@pytest.mark.parametrize("program", RIGHT)
def test_a_right_program_is_told_nothing(program, caplog, capsys):
    assert said(f"{HEAD}{RIGHT[program]}\n", caplog) == ""


def test_a_job_that_ends_with_the_script_is_said(capsys):
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_source(DataGeneratorSource(str, None, 10), None, "endless").print()
    client = env.execute_async("later")

    assert client in started
    assert (
        "ended while its job 'later' ran, and the job ends with it. Wait for the job: call wait()"
        in client._complaint()
    )
    client.cancel().result(60)
    assert client._complaint() == ""


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_failure_that_nobody_asks_for_is_said(is_asked):
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_collection([0]).map(lambda x: 1 // x).print()
    client = env.execute_async("later")
    ended = wait([client._result], 60)
    if is_asked:
        assert client.get_job_execution_result().exception() is not None

    assert ended.done
    assert (
        "never asked for the result of its job 'later', which failed: operator 'map'" in client._complaint()
    ) is not is_asked
