"""Windows of numbers under the operator harness, and what they hold."""

from __future__ import annotations

import pytest

from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import CallStyle, Elements, Reduced, WindowCall, WindowSpec
from funken.testing.harness import OperatorHarness
from funken.windowing.assigners import TumblingEventTimeWindows
from tests.support import functions

TEN = TumblingEventTimeWindows.of(10)
SUM = Reduced(UserFunction(lambda a, b: a + b))
SHOW = WindowCall(UserFunction(lambda key, window, elements: [(window, list(elements))]), CallStyle.APPLY)

both = pytest.mark.parametrize("general", [False, True], ids=["chosen", "general"])


def one(value):
    return "key"


def parity(value):
    return value % 2


def harness(assigner, contents=None, function=None, key=one, now=0, **options):
    """Windows of numbers; without contents, each firing shows the window and its elements."""
    if contents is None:
        contents, function = Elements(), function or SHOW
    return OperatorHarness(WindowSpec(UserFunction(key), assigner, contents, function, **options), keyed=True, now=now)


class Sum(functions.Sum):
    """An aggregate that notes its life."""

    def __init__(self):
        self.life = []

    def open(self, runtime_context):
        self.life.append("open")

    def close(self):
        self.life.append("close")
