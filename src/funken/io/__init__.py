"""Access to the outside: file systems, the storage of checkpoints, pickling, durations.

May import ``ids`` and ``errors`` only.
"""
