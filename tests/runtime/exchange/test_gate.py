"""The gate against an oracle: the watermark is the minimum over the channels that keep up, and never goes back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from funken.columnar.block import RowBlock
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.runtime.exchange.gate import InputGate


class Recorder:
    def __init__(self):
        self.told = []
        self.watermarks = []

    def process(self, index, block):
        self.told.append(("data", index, block.rows()[0]))

    def watermark(self, watermark):
        self.watermarks.append(watermark)
        self.told.append(("watermark", watermark))

    def watermark_input(self, index, watermark):
        self.told.append(("input", index, watermark))

    def idle(self, idle):
        self.told.append(("idle", idle))

    def barrier(self, checkpoint):
        self.told.append(("barrier", checkpoint))

    def end_input(self, index):
        self.told.append(("end_input", index))

    def finish(self):
        self.told.append(("finish",))


class Oracle:
    """Flink's rules, one input after the other, recomputed at every event."""

    def __init__(self, channels, input_of):
        self.channels = channels
        self.input_of = input_of
        self.watermark_of = dict.fromkeys(channels, MIN_TIMESTAMP)
        self.is_idle = dict.fromkeys(channels, False)
        self.behind = set()
        self.of_input = dict.fromkeys(input_of.values(), MIN_TIMESTAMP)
        self.told = MIN_TIMESTAMP

    def event(self, channel, kind, number):
        number_in = self.input_of[channel]
        same = [c for c in self.channels if self.input_of[c] == number_in]
        was_idle, before = self.is_idle[channel], self.of_input[number_in]
        if kind == "watermark" and number > self.watermark_of[channel]:
            self.watermark_of[channel] = number
            self.is_idle[channel] = False
        elif kind == "data":
            self.is_idle[channel] = False
        elif kind == "idle":
            self.is_idle[channel] = bool(number)
        if was_idle and not self.is_idle[channel]:
            self.behind.add(channel)
        if self.watermark_of[channel] >= before:
            self.behind.discard(channel)
        counting = [self.watermark_of[c] for c in same if not self.is_idle[c] and c not in self.behind]
        last_to_sleep = not was_idle and all(self.is_idle[c] for c in same) and self.watermark_of[channel] == before
        if counting:
            self.of_input[number_in] = max(before, min(counting))
        elif last_to_sleep:
            self.of_input[number_in] = max(self.watermark_of[c] for c in same)
        awake = {self.input_of[c] for c in self.channels if not self.is_idle[c]}
        known = awake | ({number_in} if self.of_input[number_in] > before else set())
        if known:
            self.told = max(self.told, min(self.of_input[each] for each in known))
        return self.told, not awake


EVENTS = st.one_of(
    st.tuples(st.just("data"), st.just(0)),
    st.tuples(st.just("watermark"), st.integers(1, 6)),
    st.tuples(st.just("idle"), st.booleans()),
)


@given(st.lists(st.tuples(st.integers(0, 3), EVENTS), max_size=60), st.integers(1, 4), st.booleans())
@settings(max_examples=300)
def test_the_watermark_is_the_minimum_over_the_channels_that_keep_up(events, count, two_inputs):
    state_writer = Recorder()
    channels = [(0, number) for number in range(count)]
    input_of = {key: key[1] % 2 if two_inputs else 0 for key in channels}
    gate = InputGate(state_writer, input_of.items())
    oracle = Oracle(channels, input_of)

    for number, (kind, value) in events:
        key = channels[number % count]
        if kind == "data":
            gate.data(key, RowBlock([1]))
        else:
            getattr(gate, kind)(key, value)
        expected, idle = oracle.event(key, kind, value)
        assert gate.combined == expected
        assert (state_writer.watermarks or [MIN_TIMESTAMP])[-1] == expected
        told = [entry[1] for entry in state_writer.told if entry[0] == "idle"]
        assert (told or [False])[-1] == idle
    assert state_writer.watermarks == sorted(set(state_writer.watermarks))

    for key in channels:
        assert not gate.finished
        gate.watermark(key, MAX_WATERMARK)
        gate.end(key)
    assert gate.finished
    assert state_writer.watermarks[-1] == MAX_WATERMARK
    assert state_writer.told[-1] == ("finish",)
    assert [entry for entry in state_writer.told if entry[0] == "finish"] == [("finish",)]


def test_inputs_have_watermarks_of_their_own():
    state_writer = Recorder()
    gate = InputGate(state_writer, [((0, 0), 0), ((1, 0), 1)])

    gate.watermark((0, 0), 10)
    gate.watermark((1, 0), 7)
    gate.watermark((1, 0), 5)

    assert state_writer.told == [("input", 0, 10), ("input", 1, 7), ("watermark", 7)]


def test_an_idle_channel_holds_nobody_back():
    state_writer = Recorder()
    gate = InputGate(state_writer, [((0, 0), 0), ((0, 1), 0)])

    gate.watermark((0, 0), 10)
    assert state_writer.watermarks == []
    gate.idle((0, 1), True)

    assert state_writer.watermarks == [10]


def test_a_channel_that_comes_back_late_is_ignored_until_it_has_caught_up():
    """As Flink's valve does: the others need not wait until a source that slept has read what it missed."""
    state_writer = Recorder()
    gate = InputGate(state_writer, [((0, 0), 0), ((0, 1), 0)])
    gate.idle((0, 1), True)
    gate.watermark((0, 0), 10)

    gate.data((0, 1), RowBlock(["late?"], [3]))
    gate.watermark((0, 1), 4)
    gate.watermark((0, 0), 20)
    assert state_writer.watermarks == [10, 20]

    gate.watermark((0, 1), 20)
    gate.watermark((0, 0), 30)
    assert state_writer.watermarks == [10, 20], "it has caught up, and counts again"
    gate.watermark((0, 1), 25)
    assert state_writer.watermarks == [10, 20, 25]


def test_a_channel_that_comes_back_ahead_counts_at_once():
    state_writer = Recorder()
    gate = InputGate(state_writer, [((0, 0), 0), ((0, 1), 0)])
    gate.watermark((0, 1), 15)
    gate.watermark((0, 0), 10)
    gate.idle((0, 1), True)

    gate.idle((0, 1), False)
    gate.watermark((0, 0), 30)

    assert state_writer.watermarks == [10, 15]


def test_when_all_go_idle_what_any_of_them_knew_counts():
    state_writer = Recorder()
    gate = InputGate(state_writer, [((0, 0), 0), ((0, 1), 0)])
    gate.watermark((0, 0), 10)
    gate.watermark((0, 1), 50)
    gate.idle((0, 1), True)

    gate.idle((0, 0), True)

    assert state_writer.told[-2:] == [("watermark", 50), ("idle", True)]


def test_an_input_ends_when_its_last_channel_does():
    state_writer = Recorder()
    gate = InputGate(state_writer, [((0, 0), 0), ((0, 1), 0), ((1, 0), 1)])

    for key in [(0, 0), (1, 0), (0, 1)]:
        gate.watermark(key, MAX_WATERMARK)
        gate.end(key)

    assert [entry for entry in state_writer.told if entry[0] in ("end_input", "finish")] == [
        ("end_input", 1),
        ("end_input", 0),
        ("finish",),
    ]
