"""Functions over whole blocks, ``@funken.vectorized``: what marks them, and what they declare about their results.

``operators/columnar`` calls them. May import the modules of ``columnar``, and ``types``.
"""
