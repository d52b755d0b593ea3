"""Training over the tasks: a solver on an iteration, with its sums all-reduced by the aggregators of the supersteps.

May import the public surface of ``funken`` and ``funken.dataset``, ``config``, ``errors`` and ``ids``.
"""
