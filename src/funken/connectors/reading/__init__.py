"""Parts that readers share: a queue of splits, a thread that fetches blocks from a service, and what becomes of messages.

May import ``funken.connectors.base`` and what is below.
"""
