"""The connector SDK: the contracts of sources and sinks, and the connectors that come with Funken.

``base.py`` is the contract of a source, ``sink.py`` that of a sink, ``schemas.py`` keeps formats apart from transport. Their
names are exported here, for connectors of your own; docs/guide/connectors.md explains them. May import ``types``, ``timing``,
``io`` and what is below.
"""

from funken.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
