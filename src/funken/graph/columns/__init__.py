"""Graphs as arrays: one part per task, with dense vertex numbers. Only the library's own algorithms run on it.

May import NumPy and SciPy; is imported inside of functions, so that a program without library algorithms loads neither.
"""

import funken.graph.packages  # noqa: F401 - an absent package is named with its extra
