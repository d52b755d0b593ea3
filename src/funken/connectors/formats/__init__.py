"""Formats: schemas for JSON, text and bytes, and the policy for malformed messages, for any transport.

``schemas.py`` of ``connectors`` is their contract. May import ``connectors``, ``types`` and what is below.
"""
