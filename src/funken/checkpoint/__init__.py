"""Distributed snapshots, the half that belongs to the driver: when to take one, when it is complete, how to start from it.

``machine.py`` decides as a pure state machine; ``coordinator.py`` carries out its commands. ``store/`` is what is in storage,
``snapshot/`` how the state of one subtask becomes it. May import ``state``, ``timing``, ``io`` and what is below.
"""
