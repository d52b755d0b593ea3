"""Leader election between the drivers of a job: the lease, ZooKeeper, and the ends of jobs.

May import ``io``, ``config``, ``timing`` and what is below.
"""
