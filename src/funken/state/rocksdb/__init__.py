"""Keyed state in RocksDB: more of it than fits into memory."""
