"""Checks, when ``funken.ml`` is imported, that its packages are installed."""

from funken import extras

extras.need("ml", "funken.ml")
