"""PyFlink's names for Funken: after ``import funken.compat.pyflink``, ``import pyflink...`` resolves to Funken.

May import everything but ``cli`` and ``spark``.

The classes behind the names are Funken's own where PyFlink's users cannot tell the difference, and thin subclasses
where they can. What needs a JVM is refused, with what to use instead. ``docs/guide/porting-from-pyflink.md`` says more.

>>> import funken.compat.pyflink
>>> from pyflink.datastream import StreamExecutionEnvironment
>>> StreamExecutionEnvironment.__module__
'funken.compat.pyflink.environment'
"""

from funken.compat.pyflink.finder import install

__all__ = ["install"]
