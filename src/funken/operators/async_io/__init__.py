"""Asynchronous requests: the operator, its queues, its event loop, retries and a cache of results.

May import ``operators`` and what is below.
"""
