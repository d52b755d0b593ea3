"""Learning on unbounded streams: streams of model versions, predictions with the newest, evaluation, drift.

May import the public surface of ``funken`` and ``funken.dataset``, ``config``, ``errors``, ``ids`` and ``sdk``.
"""
