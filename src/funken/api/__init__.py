"""The DataStream API. Every call adds a node to the program's graph; nothing runs here.

``streams/`` has the families of streams, ``functions/`` the function objects, ``jobs/`` what a submitted job looks like; the
environment puts them together. May import everything below it; not ``spark``, ``cli``, ``testing``, ``compat``.
"""
