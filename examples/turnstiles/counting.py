"""What the job does, apart from how it is started: this module is imported by job.py, and by its tests."""

from funken import KeyedProcessFunction, ValueStateDescriptor

GATES = ("north", "south", "west")


def passage(index):
    """Return passage number ``index``: which gate, and which way."""
    return GATES[index % len(GATES)], "out" if index % 5 == 4 else "in"


class CountPassages(KeyedProcessFunction):
    """Number the passages of a gate, and keep how many people are inside through it."""

    def open(self, runtime_context):
        self.passages = runtime_context.get_state(ValueStateDescriptor("passages", default=0))
        self.inside = runtime_context.get_state(ValueStateDescriptor("inside", default=0))

    def process_element(self, value, ctx):
        gate, way = value
        self.passages.update(self.passages.value() + 1)
        self.inside.update(self.inside.value() + (1 if way == "in" else -1))
        yield f"{gate} {self.passages.value()} {self.inside.value()}"
