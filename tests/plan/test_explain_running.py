"""What explain() says of a job that runs: which way the records of each operator took."""

from funken import DataGeneratorSource, StreamExecutionEnvironment


def test_records_of_all_subtasks_are_counted_with_reasons():
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, 5000), None, "numbers")
    numbers.map(lambda i: i * 2**58 if i >= 4000 else i).name("shift").for_each(id)
    client = env.execute_async()
    client.get_job_execution_result().result(timeout=30)

    lines = [line.strip() for line in client.explain().splitlines()]

    said = lines[lines.index("columns: shift: vectorized") + 1]
    on_columns, in_rows = (
        int(part.split()[0].replace(",", "")) for part in said.removeprefix("so far ").split("columns, ")
    )
    assert on_columns + in_rows == 5000
    assert on_columns >= 500
    assert in_rows >= 1000
    assert said.endswith(f"(an overflow: {in_rows:,})")


def test_a_program_that_does_not_run_says_nothing_of_it():
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    env.from_source(DataGeneratorSource(lambda i: i, 10), None, "numbers").map(lambda i: i + 1).for_each(id)

    assert "so far" not in env.explain()
