"""A submitted job as the program sees it: its client, its results, and the runner that was chosen.

May import ``runtime`` and what is below; not ``api.streams``.
"""
