"""A vectorized program on every way to run: columns over a real exchange."""

from collections import Counter

from funken import NumberSequenceSource, TumblingEventTimeWindows, WatermarkStrategy, vectorized

COUNT = 20_000


def test_columns_cross_an_exchange(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda i, _: i)
    numbers = env.from_source(NumberSequenceSource(0, COUNT - 1), strategy, "numbers").set_parallelism(1)
    pairs = numbers.map(lambda i: (f"key {i % 10}", i)).set_parallelism(1)
    kept = pairs.filter(lambda pair: pair[1] % 4 != 1).set_parallelism(1)
    keyed = kept.key_by(lambda pair: pair[0])
    windows = keyed.window(TumblingEventTimeWindows.of(1000)).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert "window reduce: vectorized" in env.explain()
    with windows.execute_and_collect() as records:
        found = Counter(records)

    expected: Counter = Counter()
    sums: dict = {}
    for i in range(COUNT):
        if i % 4 != 1:
            sums[i // 1000, f"key {i % 10}"] = sums.get((i // 1000, f"key {i % 10}"), 0) + i
    expected.update((key, total) for (_, key), total in sums.items())
    assert found == expected


@vectorized(output_type={"key": int, "total": float})
def halved(number):
    return {"key": number % 10, "total": number / 2}


def test_functions_over_whole_blocks_run_everywhere_and_begin_columns(env):
    numbers = env.from_collection(range(1000)).set_parallelism(1)
    halves = numbers.map(halved).filter(vectorized(lambda half: half["key"] != 3))
    batches = halves.map_batches(lambda frame: frame[frame.total < 400.0], {"key": int, "total": float}, "pandas")
    sums = batches.key_by(lambda half: half["key"]).reduce(lambda a, b: {**a, "total": a["total"] + b["total"]})
    assert "reduce: vectorized" in env.explain()
    last: dict = {}
    with sums.execute_and_collect() as records:
        for record in records:
            last[record["key"]] = max(last.get(record["key"], 0.0), record["total"])

    assert last == {key: sum(n / 2 for n in range(800) if n % 10 == key) for key in range(10) if key != 3}
