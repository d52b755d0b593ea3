"""Parts that readers share: a queue of splits, and a thread that fetches blocks from a service.

May import ``funken.connectors.base`` and what is below.
"""
