"""Data as blocks of NumPy arrays: from records, arrays and Spark ``DataFrame`` objects, and back to records.

May import the public surface of ``funken`` and ``funken.dataset``, ``config``, ``errors`` and ``ids``.
"""
