"""The DataFrame API: tables as frames, whose methods are the verbs of pandas and Polars (``pyflink.dataframe``).

May import everything but the command line, the testing tools and the compatibility layer.

>>> import funken.dataframe as ff
>>> words = ff.from_records([("to", 1), ("be", 2), ("to", 3)], schema=["word", "n"])
>>> words.filter(ff.col("n") > 1).with_column("double", ff.col("n") * 2).to_pandas()
  word  n  double
0   be  2       4
1   to  3       6
"""

from funken.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
