"""Keyed state in RocksDB: more of it than fits into memory.

May import ``state``, ``types`` and ``errors``.
"""
