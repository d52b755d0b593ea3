"""Checks, when an algorithm of ``funken.graph`` on columns is imported, that its packages are installed."""

from funken import extras

extras.need("graph", "the library of funken.graph")
