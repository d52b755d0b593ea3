"""Transformers: scikit-learn's, fitted by one pass over distributed data.

May import the public surface of ``funken`` and ``funken.dataset``, ``config``, ``errors`` and ``ids``.
"""
