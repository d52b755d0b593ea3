"""Functions of a local job that block, and events by which a test follows them: found by name, so not copied with the plan."""

from __future__ import annotations

import threading

REACHED = threading.Event()
LET_GO = threading.Event()


def reach() -> None:
    REACHED.set()


def wait_outside_of_python(value: object = None) -> None:
    LET_GO.wait()


def wait_and_fail(value: object) -> None:
    LET_GO.wait(30)
    raise ValueError(value)


def reach_and_wait(value: object) -> object:
    REACHED.set()
    LET_GO.wait(30)
    return value
