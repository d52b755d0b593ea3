"""Which of several drivers of a job leads it: the lease, ZooKeeper, and how jobs have ended.

May import ``io``, ``config``, ``timing`` and what is below.
"""
