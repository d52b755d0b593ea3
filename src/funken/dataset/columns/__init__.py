"""Blocks of columns in batch programs, and the operators that work on them.

May import ``plan``, ``memory`` and ``optimizer`` of the DataSet API, and ``funken.columnar``.
"""
