"""The life of a job as data: its states and moves, the machine that makes them, and pictures of it.

Pure: no thread, no clock, no I/O. May import ``runtime.messages``, ``plan``, ``checkpoint`` and what is below.
"""
