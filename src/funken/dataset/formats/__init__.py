"""Input and output formats: collections, text, CSV, JSON lines, Parquet, and formats of one's own.

May import ``dataset.plan`` and the public surface and what these may.
"""
