"""Graphs whose edges are a stream: running properties, windows over neighbourhoods, and summaries that are kept up to date.

May import what ``funken.graph`` may; nothing here needs NumPy.
"""
