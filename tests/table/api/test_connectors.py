"""Tables of connectors: options, generated rows, and the rows of tests."""

import pytest

from funken import Row, RowKind
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import LookupTable, TableContext, TableNotReadable
from funken.table.connectors.factory import (
    TableFactory,
    factory_of,
    lookup_table,
    register_connector,
    scan_table,
    sink_table,
)
from funken.table.connectors.values import KeptChanges, register_rows
from funken.table.environment import TableEnvironment
from funken.table.types import parse_type
from funken.testing import local

COLUMNS = (("id", parse_type("BIGINT")), ("name", parse_type("STRING")))


def context(**options):
    return TableContext("c.d.t", COLUMNS, options={key.replace("_", "-"): value for key, value in options.items()})


def test_an_unknown_option_is_named_with_the_nearest_and_all_known_ones():
    with pytest.raises(InvalidProgram) as wrong:
        sink_table(context(connector="print", print_identifer="x"))

    assert str(wrong.value).splitlines() == [
        "Unsupported options found for table 'c.d.t': 'print-identifer' (did you mean 'print-identifier'?).",
        "Supported options: connector, print-identifier, sink.parallelism, standard-error.",
    ]


def test_a_value_that_does_not_fit_is_named():
    with pytest.raises(InvalidProgram, match=r"Invalid value for option 'rows-per-second' of table 'c.d.t': 'many'"):
        scan_table(context(connector="datagen", rows_per_second="many"))
    with pytest.raises(InvalidProgram, match="is a sequence without a beginning or an end"):
        scan_table(TableContext("t", COLUMNS, options={"connector": "datagen", "fields.id.kind": "sequence"}))
    ends = {"connector": "datagen", "fields.id.kind": "sequence", "fields.id.start": "3", "fields.id.end": "1"}
    with pytest.raises(InvalidProgram, match="column 'id' .* is a sequence from 3 to 1, which has no numbers"):
        scan_table(TableContext("t", COLUMNS, options=ends))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_print_prefixes_lines_as_flink_does(capsys, parallelism):
    tables = TableEnvironment.create()
    tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    options = f"'connector' = 'print', 'print-identifier' = 'id', 'sink.parallelism' = '{parallelism}'"
    tables.execute_sql(f"CREATE TABLE out (x INT) WITH ({options})")
    tables.execute_sql(f"CREATE TABLE err (x INT) WITH ({options}, 'standard-error' = 'true')")
    tables.execute_sql("INSERT INTO out VALUES (1)").wait()
    assert capsys.readouterr().out in ({"id> +I[1]\n"} if parallelism == 1 else {"id:1> +I[1]\n", "id:2> +I[1]\n"})
    tables.execute_sql("INSERT INTO err VALUES (1)").wait()
    printed = capsys.readouterr()
    assert (printed.out, printed.err[:2]) == ("", "id")


def test_a_connector_offers_what_it_offers():
    with pytest.raises(TableNotReadable, match="connector 'print' is a sink only"):
        scan_table(context(connector="print"))
    with pytest.raises(TableNotReadable, match="connector 'datagen' is a source only"):
        sink_table(context(connector="datagen"))
    with pytest.raises(TableNotReadable, match="has no lookup"):
        lookup_table(context(connector="datagen"), ["id"])
    with pytest.raises(InvalidProgram, match="has no option 'connector'"):
        factory_of(context())


def test_a_connector_of_the_program_has_a_name():
    class Names(LookupTable):
        def lookup(self, keys):
            return [[(key, f"name {key}")] for (key,) in keys]

    class Factory(TableFactory):
        def lookup(self, context, keys):
            return Names()

    register_connector("names of the test", Factory())

    assert lookup_table(context(connector="names of the test"), ["id"]).lookup([(7,)]) == [[(7, "name 7")]]


def test_generated_rows_are_the_same_in_every_run():
    options = {
        "connector": "datagen", "number-of-rows": "3", "fields.id.kind": "sequence", "fields.id.start": "5",
        "fields.id.end": "9", "fields.name.length": "4",
    }  # fmt: skip

    def rows():
        env = local([]).get_execution_environment()
        return scan_table(TableContext("t", COLUMNS, options=options)).stream(env).execute_and_collect(limit=9)

    assert rows() == rows()
    assert [row[0] for row in rows()] == [5, 6, 7]
    assert {len(row[1]) for row in rows()} == {4}


def test_what_is_inside_of_a_generated_column_has_options_of_its_own():
    columns = (
        ("r", parse_type("ROW<x INT, y STRING>")),
        ("a", parse_type("ARRAY<INT>")),
        ("m", parse_type("MAP<INT, STRING>")),
    )
    options = {
        "connector": "datagen", "number-of-rows": "2", "fields.r.x.min": "5", "fields.r.x.max": "5", "fields.r.y.length": "2",
        "fields.a.length": "2", "fields.a.element.min": "7", "fields.a.element.max": "7", "fields.m.key.min": "1",
        "fields.m.key.max": "1", "fields.m.value.null-rate": "1",
    }  # fmt: skip

    def rows(options):
        env = local([]).get_execution_environment()
        return scan_table(TableContext("t", columns, options=options)).stream(env).execute_and_collect(limit=9)

    assert [(row[0][0], len(row[0][1]), row[1], row[2]) for row in rows(options)] == [(5, 2, [7, 7], {1: None})] * 2
    for wrong, near in (
        ("fields.r.z.min", "fields.r.x.min"),
        ("fields.rr.length", ""),
        ("fields.a.min", "fields.a.kind"),
    ):
        with pytest.raises(InvalidProgram, match=f"Unsupported options .*'{wrong}'.*{near}"):
            rows({**options, wrong: "1"})


def test_values_of_every_type_are_generated():
    columns = tuple(
        (f"f{place}", parse_type(text))
        for place, text in enumerate(
            ["TINYINT", "DOUBLE", "FLOAT", "DECIMAL(5, 2)", "BOOLEAN", "VARBINARY(3)", "DATE", "TIME", "TIMESTAMP(3)",
             "TIMESTAMP_LTZ(3)", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>"]
        )
    )  # fmt: skip
    options = {"connector": "datagen", "number-of-rows": "2", "fields.f0.min": "1", "fields.f0.max": "2"}
    env = local([]).get_execution_environment()
    [first, _] = scan_table(TableContext("t", columns, options=options)).stream(env).execute_and_collect(limit=9)

    assert 1 <= first[0] <= 2
    assert abs(first[3]) < 1000
    assert len(first[5]) == 3
    assert isinstance(first[12], Row)


def test_printed_rows_have_their_kinds(capsys):
    rows = local([Row(1, "a"), Row.of_kind(RowKind.DELETE, 1, None)])
    sink_table(context(connector="print", print_identifier="out")).sink(rows)
    rows.get_execution_environment().execute()

    assert capsys.readouterr().out == "out> +I[1, a]\nout> -D[1, null]\n"


def test_rows_of_a_test_are_read_with_their_kinds():
    data_id = register_rows([(1, "a"), Row.of_kind(RowKind.UPDATE_AFTER, 1, "b")])
    scan = scan_table(context(connector="values", data_id=data_id, changelog_mode="I,UA,D"))

    assert (str(scan.changelog_mode), scan.bounded) == ("[I,UA,D]", True)
    read = scan.stream(local([]).get_execution_environment()).execute_and_collect(limit=9)
    assert [str(row.get_row_kind()) for row in read] == ["+I", "+U"]
    with pytest.raises(InvalidProgram, match="no rows are registered as 'nothing'"):
        scan_table(context(connector="values", data_id="nothing"))


def test_a_keyed_result_replaces_and_deletes():
    results = KeptChanges(key=(0,))
    for row in (
        Row(1, "a"),
        Row.of_kind(RowKind.UPDATE_AFTER, 1, "b"),
        Row(2, "c"),
        Row.of_kind(RowKind.DELETE, 2, "c"),
    ):
        results.add(row)

    assert results.rows() == [Row(1, "b")]
    with pytest.raises(ValueError, match=r"no row to delete for the key \(3,\)"):
        results.add(Row.of_kind(RowKind.DELETE, 3, "x"))


def test_modes_of_change():
    assert ChangelogMode.parse("I, UB,UA,D") == ChangelogMode.all()
    assert ChangelogMode.upsert().key_only_deletes
    assert not ChangelogMode.insert_only().takes([RowKind.DELETE])
