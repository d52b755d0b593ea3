"""What the rest asks of the outside: file systems and the storage of checkpoints on them, pickling, durations.

May import ``ids`` and ``errors`` only.
"""
