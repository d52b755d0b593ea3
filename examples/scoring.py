"""Machine learning: train a classifier on a data set, and score a stream with it; flowers by their measures."""

from collections import Counter, namedtuple

from sklearn.datasets import load_iris

from funken import StreamExecutionEnvironment, ml
from funken.dataset import ExecutionEnvironment

Flower = namedtuple("Flower", "sepal_length sepal_width petal_length petal_width kind")
X, y = load_iris(return_X_y=True)
names = ["setosa", "versicolor", "virginica"]
flowers = [Flower._make([*map(float, row), names[label]]) for row, label in zip(X, y, strict=True)]
known, new = flowers[::2], flowers[1::2]

batch = ExecutionEnvironment.get_execution_environment()
model = ml.make_pipeline(ml.StandardScaler(), ml.LogisticRegression())
model.fit(batch.from_collection(known), y="kind")

env = StreamExecutionEnvironment.get_execution_environment()
scored = model.predict(env.from_collection(new))
with scored.map(lambda pair: (pair[0].kind, str(pair[1]))).execute_and_collect() as results:
    table = Counter(results)
for (kind, predicted), count in sorted(table.items()):
    print(f"{kind}: {count} predicted as {predicted}")
