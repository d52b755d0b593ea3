"""How a task keeps the queues before it short: delays it reports, windows of its sources, the size of its pieces of work.

May import ``runtime``, ``runtime.exchange``, ``plan`` and what is below; not ``runtime.task``.
"""
