"""Declared types on columns: what a type makes of columns of a schema, where that is exactly what it makes of the records.

May import what ``columnar`` may; the kernels are in ``columnar/loops/converting.py``.
"""
