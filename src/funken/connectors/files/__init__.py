"""Files as a source and as an exactly-once sink: splits, lines, buckets, part files.

May import ``connectors``, ``io``, ``types``, ``timing`` and what is below.
"""
