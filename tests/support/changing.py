"""Random graphs of functions that change records in place, and what they give if no function sees what another one does.

A record is a list that begins with a number. A graph is a list of steps; a step names its kind and the streams it reads,
by position. Every stream is part of the result.
"""

from __future__ import annotations

from funken import OutputTag, ProcessFunction

KINDS = ("map", "filter", "flat_map", "process", "keyed", "exchange", "side", "union")
RECORDS = range(5)


def random_steps(chance, length=8):
    """Draw a graph; the first stream is the source."""
    steps = []
    for position in range(1, length + 1):
        kind = chance.choice(KINDS)
        steps.append((kind, *(chance.randrange(position) for _ in range(2 if kind == "union" else 1))))
    return steps


class Keep(ProcessFunction):
    """Emits each record, changes what it emitted, and what it was given before."""

    def __init__(self, mark):
        self.mark = mark
        self.kept = []

    def process_element(self, value, ctx):
        value.append(self.mark)
        self.kept.append(value)
        yield value
        for record in self.kept:
            record.append("changed too late")


class Aside(ProcessFunction):
    """Emits each record twice: to a side output too."""

    def __init__(self, mark):
        self.mark = mark

    def process_element(self, value, ctx):
        yield OutputTag("aside"), value
        value.append(self.mark)
        yield value


def append(mark, value):
    value.append(mark)
    return value


def build(env, steps):
    """Return the union of all streams of a graph."""
    streams = [env.from_collection([[number] for number in RECORDS])]
    for mark, (kind, *parents) in enumerate(steps):
        streams.append(_BUILD[kind](f"{kind} {mark}", *(streams[parent] for parent in parents)))
    return streams[0].union(*streams[1:])


_BUILD = {
    "map": lambda mark, stream: stream.map(lambda value: append(mark, value)),
    "filter": lambda mark, stream: stream.filter(lambda value: append(mark, value)[0] % 2),
    "flat_map": lambda mark, stream: stream.flat_map(lambda value: [append(mark, value), [value[0], "new"]]),
    "process": lambda mark, stream: stream.process(Keep(mark)),
    "keyed": lambda mark, stream: stream.key_by(lambda value: value[0]).process(Keep(mark)),
    "exchange": lambda mark, stream: stream.rebalance().map(lambda value: append(mark, value)),
    "side": lambda mark, stream: (
        stream.process(Aside(mark)).get_side_output(OutputTag("aside")).map(lambda value: append("aside", value))
    ),
    "union": lambda mark, one, other: one.union(other).map(lambda value: append(mark, value)),
}


def expected(steps):
    """Return the records of all streams of a graph."""
    streams = [[[number] for number in RECORDS]]
    for mark, (kind, *parents) in enumerate(steps):
        streams.append(_EXPECTED[kind](f"{kind} {mark}", *(streams[parent] for parent in parents)))
    return [record for stream in streams for record in stream]


def _marked(mark, *streams):
    return [[*record, mark] for stream in streams for record in stream]


_EXPECTED = {
    "map": _marked,
    "filter": lambda mark, stream: [record for record in _marked(mark, stream) if record[0] % 2],
    "flat_map": lambda mark, stream: _marked(mark, stream) + [[record[0], "new"] for record in stream],
    "process": _marked,
    "keyed": _marked,
    "exchange": _marked,
    "side": lambda mark, stream: _marked("aside", stream),
    "union": _marked,
}
