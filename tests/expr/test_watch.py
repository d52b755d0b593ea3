"""The way of a block: what costs less per record, told apart by the length of blocks."""

from funken.expr.watch import CostWatch, Way


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

    ways = [watch.way(100) for _ in range(128)]
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
