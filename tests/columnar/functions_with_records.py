"""Functions that keep a record of each key: the best one, or the last one."""

from typing import Any

from funken import KeyedProcessFunction, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor


class Kept(KeyedProcessFunction):
    """Gives what is kept before each record."""

    default: Any = None

    def open(self, runtime_context: Any) -> None:
        self.best = runtime_context.get_state(ValueStateDescriptor("best"))


class LeastInt(Kept):
    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if best is None or value[1] < best[1]:
            self.best.update(value)
        yield best or (0, 0, "")


class GreatestText(Kept):
    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if best is None or value[2] > best[2]:
            self.best.update(value)
        yield best or (0, 0, "")


class Computed(Kept):
    """What decides is computed of the record that is kept."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if best is None or (-value[1] % 3, value[2], -value[1]) < (-best[1] % 3, best[2], -best[1]):
            self.best.update(value)
        yield best or (0, 0, "")


class IntsThenText(Kept):
    """Texts decide only where the ints are alike."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if best is None or (-value[1], value[2]) < (-best[1], best[2]):
            self.best.update(value)
        yield best or (0, 0, "")


class FirstOfEqual(Kept):
    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        self.best.update(value if best is None else max(best, value, key=lambda r: r[1]))
        yield self.best.value()


class LastOfEqual(Kept):
    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if best is None or value[1] >= best[1]:
            self.best.update(value)
        yield self.best.value()


class Cleared(Kept):
    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if value[2] == "x":
            self.best.clear()
        else:
            self.best.update(value if best is None else min(best, value, key=lambda r: r[1]))
        yield best or (0, 0, "")


class ClearedOrCompared(Kept):
    """Whether there is a record depends on the one that is kept."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if value[2] == "x":
            self.best.clear()
        elif best is None or value[1] < best[1]:
            self.best.update(value)
        yield best or (0, 0, "")


class WithDefault(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.best = runtime_context.get_state(ValueStateDescriptor("best", default=(0, 2, "b")))

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if value[2] == "x":
            self.best.clear()
        else:
            self.best.update(min(best, value, key=lambda r: (r[1], r[2])))
        yield best


class InMap(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.best = runtime_context.get_map_state(MapStateDescriptor("best"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.get(value[2])
        if best is None or value[1] < best[1]:
            self.best.put(value[2], value)
        yield best or (0, 0, "")


class Reduced(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        better = ReducingStateDescriptor("best", lambda a, b: a if (a[1], a[2]) <= (b[1], b[2]) else b)
        self.best = runtime_context.get_reducing_state(better)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.best.add(value)
        yield self.best.get()


class Floats(Kept):
    """9 stands for a number that is none."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        share = value[1] / 2 if value[1] != 9 else float("nan")
        if best is None or share < best[0]:
            self.best.update((share, value[2]))
        yield best or (0.0, "")


class Last(KeyedProcessFunction):
    """Keeps a record with several texts as it is."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        last = self.last.value()
        self.last.update((value[2], value, "even" if value[1] % 2 == 0 else "odd"))
        if last is not None:
            yield last


class Numbered(KeyedProcessFunction):
    """What is kept is partly computed from what was kept, in a way that is no scan."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", default=(1, "")))

    def process_element(self, value: Any, ctx: Any) -> Any:
        number, text = self.last.value()
        self.last.update((number * 3 % 1000 + value[1], value[2]))
        yield number, text
