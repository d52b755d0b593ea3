"""The way of a block: what costs less per record, told apart by the length of blocks."""

from funken.operators.columnar.path import CostWatch, StateWatch, Way


def test_blocks_go_on_columns_until_both_ways_are_known():
    watch = CostWatch()
    watch.took(Way.COLUMNS, 100, 9.0)
    watch.took(Way.ROWS, 100, 0.1)

    assert watch.way(100) is Way.COLUMNS


def test_a_way_that_costs_more_is_left_for_blocks_of_that_length():
    watch = CostWatch()
    for _ in range(3):
        watch.took(Way.COLUMNS, 100, 0.0003)
        watch.took(Way.COLUMNS, 10_000, 0.001)
        watch.took(Way.ROWS, 100, 0.0001)

    assert watch.way(100) is Way.ROWS
    assert watch.way(10_000) is Way.COLUMNS


def test_a_way_that_has_lost_is_tried_again_and_taken_if_it_is_faster_now():
    watch = CostWatch()
    for _ in range(5):
        watch.took(Way.COLUMNS, 100, 0.0003)
        watch.took(Way.ROWS, 100, 0.0001)

    ways = [watch.way(100) for _ in range(64 + 128)]
    for _ in range(5):
        watch.took(Way.COLUMNS, 100, 0.00005)

    assert ways.count(Way.COLUMNS) == 2
    assert watch.way(100) is Way.COLUMNS


def test_one_slow_block_is_noise():
    watch = CostWatch()
    for seconds in (0.5, 0.0001, 0.5, 0.5):
        watch.took(Way.COLUMNS, 100, seconds)
        watch.took(Way.ROWS, 100, 0.0002)

    assert watch.way(100) is Way.COLUMNS


def test_a_difference_within_a_twentieth_changes_nothing():
    watch = CostWatch()
    for _ in range(3):
        watch.took(Way.COLUMNS, 100, 0.000104)
        watch.took(Way.ROWS, 100, 0.0001)

    assert watch.way(100) is Way.COLUMNS


def taken(watch: StateWatch, records: int, blocks: int, on_columns: float, by_rows: float) -> list[Way]:
    """Take blocks that cost so many seconds on columns, and so many a record in rows; return their ways."""
    ways = []
    for _ in range(blocks):
        ways.append(watch.way(records))
        watch.took(ways[-1], records, on_columns if ways[-1] is Way.COLUMNS else by_rows * records)
    return ways


def test_large_blocks_of_a_function_with_state_are_never_tried_in_rows():
    assert set(taken(StateWatch(), 1024, 200, on_columns=1.0, by_rows=0.0)) == {Way.COLUMNS}


def test_small_blocks_go_record_by_record_if_that_costs_less():
    ways = taken(StateWatch(), 20, 300, on_columns=0.0004, by_rows=0.000001)

    assert ways[:5] == [Way.COLUMNS] * 5
    assert ways[-100:].count(Way.ROWS) >= 92


def test_small_blocks_come_back_to_columns_if_records_cost_more():
    """Under load pieces are cut by time: as long as records are slow, blocks stay small."""
    ways = taken(StateWatch(), 100, 100, on_columns=0.0004, by_rows=0.00003)

    assert ways.count(Way.ROWS) == 3
    assert set(ways[-50:]) == {Way.COLUMNS}


def test_columns_that_lose_again_and_again_are_tried_ever_more_seldom():
    """Each trial of a function with state moves the state there and back."""
    ways = taken(StateWatch(), 20, 10_000, on_columns=0.0004, by_rows=0.000001)
    stateless = CostWatch()
    for _ in range(3):
        stateless.took(Way.COLUMNS, 100, 0.0003)
        stateless.took(Way.ROWS, 100, 0.0001)

    assert ways[1_000:].count(Way.COLUMNS) <= 4 * 4
    assert [stateless.way(100) for _ in range(10_000)].count(Way.COLUMNS) == 7


def test_columns_that_have_won_in_between_are_tried_early_again():
    watch = StateWatch()
    taken(watch, 20, 10_000, on_columns=0.0004, by_rows=0.000001)
    taken(watch, 20, 10_000, on_columns=0.000001, by_rows=0.000001)
    taken(watch, 20, 50, on_columns=0.0004, by_rows=0.000001)

    assert taken(watch, 20, 100, on_columns=0.0004, by_rows=0.000001).count(Way.COLUMNS) == 4


def test_blocks_that_have_grown_go_on_columns_again():
    watch = StateWatch()
    taken(watch, 20, 100, on_columns=0.0004, by_rows=0.000001)

    assert taken(watch, 1024, 20, on_columns=0.0004, by_rows=0.000001)[-1] is Way.COLUMNS


def test_what_larger_blocks_have_cost_is_a_bound_for_smaller_ones():
    watch = StateWatch()
    taken(watch, 420, 40, on_columns=0.0004, by_rows=0.00001)
    ways = taken(watch, 40, 60, on_columns=0.0003, by_rows=0.00002)

    assert ways.count(Way.ROWS) == 3
    assert ways[-1] is Way.COLUMNS
