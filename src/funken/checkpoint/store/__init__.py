"""A completed checkpoint in storage: manifest, handles, blobs, database files, and the store of all of them.

May import ``state``, ``io`` and what is below; nothing else of ``checkpoint``.
"""
