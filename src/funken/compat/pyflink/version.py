"""The version of PyFlink that the compatibility layer follows."""

from __future__ import annotations

__version__ = "2.3.0"
"""A DataStream program for this version should run."""

__all__ = ["__version__"]
