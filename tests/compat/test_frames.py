"""``pyflink.dataframe``: frames under PyFlink's names have PyFlink's environment and its older schema."""

import funken.compat.pyflink  # noqa: F401 - makes the names
import funken.dataframe as ff
from funken.compat.pyflink.older_tables import TableSchema
from funken.compat.pyflink.table_environments import StreamTableEnvironment


def test_the_environment_of_frames_is_that_of_pyflink():
    import pyflink.dataframe as pf

    before = ff.get_table_environment()
    pf.set_table_environment(None)
    try:
        assert type(pf.get_or_create_table_environment()) is StreamTableEnvironment
        people = pf.from_records([(1, [2])], schema=["id", "n"])
        frames = [people, people.explode("n"), people.join(people.select("id"), on="id"), people.sort("id").limit(1)]
        for frame in frames:
            assert isinstance(frame.schema, TableSchema)
            assert frame.schema.get_field_names() == ["id", "n"]
    finally:
        pf.set_table_environment(before)
