"""What is bought together? A batch program (DataSet): items of one basket are paired, and pairs rated by their lift.

Lift compares how often two items are in one basket with how often they would be by chance: above 1 they attract each other.
"""

from itertools import combinations

from funken.dataset import ExecutionEnvironment

BASKETS = """\
1 bread butter jam
2 bread butter
3 tea milk
4 bread tea milk
5 butter jam bread
6 tea milk sugar
7 bread
8 tea sugar
"""


def bought(line):
    _, *items = line.split()
    return [(item, 1) for item in items]


def pairs(line):
    _, *items = line.split()
    return [(*pair, 1) for pair in combinations(sorted(items), 2)]


env = ExecutionEnvironment.get_execution_environment()
lines = env.from_collection(BASKETS.splitlines())
baskets = len(BASKETS.splitlines())
counts = lines.flat_map(bought).group_by(0).sum(1)
together = lines.flat_map(pairs).group_by(0, 1).sum(2).filter(lambda pair: pair[2] >= 2)
one = together.join(counts).where(0).equal_to(0).using(lambda pair, count: (*pair, count[1]))
both = one.join(counts).where(1).equal_to(0).using(lambda pair, count: (*pair, count[1]))
lifts = both.map(lambda pair: (pair[0], pair[1], pair[2], baskets * pair[2] / (pair[3] * pair[4])))
for first, second, times, lift in sorted(lifts.collect(), key=lambda rated: (-rated[3], rated[:2])):
    print(f"{first} and {second}: {times} times, lift {lift:.2f}")
