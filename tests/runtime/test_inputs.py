"""The gate against an oracle: the watermark is the minimum over the live channels, and never goes back."""

from hypothesis import given
from hypothesis import strategies as st

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.runtime.inputs import Gate


class Recorder:
    def __init__(self):
        self.told = []
        self.watermarks = []

    def process(self, index, values, timestamps):
        self.told.append(("data", index, values))

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
    """What the gate's first sentence says, recomputed from scratch at every event."""

    def __init__(self, channels):
        self.watermark_of = dict.fromkeys(channels, MIN_TIMESTAMP)
        self.is_idle = dict.fromkeys(channels, False)
        self.told = MIN_TIMESTAMP

    def event(self, channel, kind, number):
        if kind == "idle":
            self.is_idle[channel] = bool(number)
        elif kind == "data" or number > self.watermark_of[channel]:
            self.is_idle[channel] = False
        if kind == "watermark":
            self.watermark_of[channel] = max(self.watermark_of[channel], number)
        live = [self.watermark_of[c] for c in self.watermark_of if not self.is_idle[c]]
        if live:
            self.told = max(self.told, min(live))
        return self.told, not live


EVENTS = st.one_of(
    st.tuples(st.just("data"), st.just(0)),
    st.tuples(st.just("watermark"), st.integers(-5, 30)),
    st.tuples(st.just("idle"), st.booleans()),
)


@given(st.lists(st.tuples(st.integers(0, 4), EVENTS), max_size=60), st.integers(1, 5), st.booleans())
def test_the_watermark_is_the_minimum_over_the_live_channels(events, count, two_inputs):
    recorder = Recorder()
    channels = [(0, number) for number in range(count)]
    gate = Gate(recorder, [(key, key[1] % 2 if two_inputs else 0) for key in channels])
    oracle = Oracle(channels)

    for number, (kind, value) in events:
        key = channels[number % count]
        if kind == "data":
            gate.data(key, [1], None)
        else:
            getattr(gate, kind)(key, value)
        expected, idle = oracle.event(key, kind, value)
        assert gate.combined == expected
        assert (recorder.watermarks or [MIN_TIMESTAMP])[-1] == expected
        told = [entry[1] for entry in recorder.told if entry[0] == "idle"]
        assert (told or [False])[-1] == idle
    assert recorder.watermarks == sorted(set(recorder.watermarks))

    for key in channels:
        assert not gate.finished
        gate.watermark(key, MAX_WATERMARK)
        gate.end(key)
    assert gate.finished
    assert recorder.watermarks[-1] == MAX_WATERMARK
    assert recorder.told[-1] == ("finish",)
    assert [entry for entry in recorder.told if entry[0] == "finish"] == [("finish",)]


def test_inputs_have_watermarks_of_their_own():
    recorder = Recorder()
    gate = Gate(recorder, [((0, 0), 0), ((1, 0), 1)])

    gate.watermark((0, 0), 10)
    gate.watermark((1, 0), 7)
    gate.watermark((1, 0), 5)

    assert recorder.told == [("input", 0, 10), ("input", 1, 7), ("watermark", 7)]


def test_an_idle_channel_holds_nobody_back_until_it_speaks():
    recorder = Recorder()
    gate = Gate(recorder, [((0, 0), 0), ((0, 1), 0)])

    gate.watermark((0, 0), 10)
    assert recorder.watermarks == []
    gate.idle((0, 1), True)
    assert recorder.watermarks == [10]
    gate.data((0, 1), ["late?"], [3])
    gate.watermark((0, 0), 20)
    assert recorder.watermarks == [10]
    gate.watermark((0, 1), 15)
    assert recorder.watermarks == [10, 15]


def test_an_input_ends_when_its_last_channel_does():
    recorder = Recorder()
    gate = Gate(recorder, [((0, 0), 0), ((0, 1), 0), ((1, 0), 1)])

    for key in [(0, 0), (1, 0), (0, 1)]:
        gate.watermark(key, MAX_WATERMARK)
        gate.end(key)

    assert [entry for entry in recorder.told if entry[0] in ("end_input", "finish")] == [
        ("end_input", 1),
        ("end_input", 0),
        ("finish",),
    ]
