"""SQL and the Table API: tables over streams, whose results are changelogs.

May import everything but the command line, the testing tools, the compatibility layer and the libraries.

>>> from funken.table import EnvironmentSettings, TableEnvironment
>>> TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).execute_sql("SELECT 1 + 1 AS two").print()
+----+-------------+
| op |         two |
+----+-------------+
| +I |           2 |
+----+-------------+
1 row in set
"""

from funken.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
