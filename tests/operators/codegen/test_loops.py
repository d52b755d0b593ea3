"""Generated loops use variables from outside as the user's functions do: the same cells, the same modules."""

import sys
import traceback

import pytest

from funken.operators.codegen import LoopText, add_frames

NUMBER = 2


def counter(start):
    def count():
        nonlocal start
        start += 1
        return start

    return count, lambda value: value + start


def loop_of(*functions):
    text = LoopText("loop", "values")
    text.line("found = []")
    text.line("for value in values:")
    for function in functions:
        step = text.step(None, function, "value")
        assert step.inlined
        text.line(f"found.append({step.expression})", step)
    text.close()
    text.line("return found")
    return text.compile()


def test_a_variable_that_two_functions_share_is_the_same_in_the_loop():
    count, add = counter(5)
    loop = loop_of(add)

    assert loop([1, 2]) == [6, 7]
    count()
    assert loop([1, 2]) == [7, 8]


def test_functions_made_by_one_function_keep_their_own_variables():
    assert loop_of(counter(1)[1], counter(10)[1], lambda value: value)([0, 5]) == [1, 10, 0, 6, 15, 5]


class Scale:
    """Its methods are functions of a job."""

    def __init__(self, factor):
        self.factor = factor

    def times(self, value):
        return value * self.factor

    def share(self, value):
        return self.factor // value

    def own(self, value):
        return self.times(value)


def test_a_method_is_read_with_its_object():
    two, three = Scale(2), Scale(3)
    loop = loop_of(two.times, three.times, two.times)

    assert loop([1, 5]) == [2, 3, 2, 10, 15, 10]
    three.factor = 30
    assert loop([1]) == [2, 30, 2]


class Alike(Scale):
    """Equals any other."""

    def __eq__(self, other):
        return True

    __hash__ = Scale.__hash__


def test_objects_that_are_equal_are_two():
    assert loop_of(Alike(2).times, Alike(3).times)([1, 5]) == [2, 3, 10, 15]


def test_a_method_that_calls_its_own_is_called():
    assert not LoopText("loop", "values").step(None, Scale(2).own, "value").inlined


def test_an_error_names_the_line_of_the_method():
    with pytest.raises(ZeroDivisionError) as failed:
        loop_of(Scale(2).times, Scale(2).share)([1, 0])
    add_frames(failed.value)
    (*_, last) = traceback.extract_tb(failed.value.__traceback__)

    assert (last.name, last.line) == ("share", "return self.factor // value")


def test_a_variable_of_a_module_is_what_it_is_at_the_time(monkeypatch):
    loop = loop_of(lambda value: value + NUMBER)

    assert loop([1]) == [3]
    monkeypatch.setitem(globals(), "NUMBER", 30)
    assert loop([1]) == [31]


def test_an_error_names_the_line_of_the_function():
    _, divide = counter(0)
    loop = loop_of(lambda value: value, divide, lambda value: value // NUMBER)

    with pytest.raises(TypeError) as failed:
        loop(["a"])
    add_frames(failed.value)
    last = traceback.extract_tb(failed.value.__traceback__)[-1]
    assert (last.filename, last.line) == (__file__, "return count, lambda value: value + start")


class Exits:
    def __int__(self):
        sys.exit(3)


def exits(value):
    return (int(value),)


def test_a_function_that_exits_has_its_frame():
    with pytest.raises(SystemExit) as exited:
        loop_of(exits)([Exits()])
    add_frames(exited.value)
    assert [each.name for each in traceback.extract_tb(exited.value.__traceback__)[-2:]] == ["exits", "__int__"]
