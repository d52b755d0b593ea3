"""Saved models are the models, and a damaged or foreign file is refused without running anything."""

import json
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from funken import InvalidProgram, ml
from funken.testing import SimulatedJob, local

X, y = load_iris(return_X_y=True)
NAMED = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
TEXTS = ["to be or not", "to be", "that is the question"]

MODELS = {
    "scaler": (ml.StandardScaler(), X, None, "transform"),
    "range": (ml.MinMaxScaler(), X, None, "transform"),
    "robust": (ml.RobustScaler(), X, None, "transform"),
    "imputer": (ml.SimpleImputer(), X, None, "transform"),
    "one-hot": (ml.OneHotEncoder(sparse_output=False), NAMED.reshape(-1, 1), None, "transform"),
    "polynomial": (ml.PolynomialFeatures(2), X, None, "transform"),
    "selection": (ml.SelectKBest(k=2), X, y, "transform"),
    "logistic": (ml.LogisticRegression(max_iter=500), X, NAMED, "predict"),
    "svm": (ml.LinearSVC(), X, y, "predict"),
    "lasso": (ml.Lasso(0.1), X, y.astype(float), "predict"),
    "k-means": (ml.KMeans(3, n_init=1, random_state=0), X, None, "predict"),
    "bayes": (ml.GaussianNB(), X, NAMED, "predict"),
    "neighbours": (ml.KNeighborsClassifier(3), X, NAMED, "predict"),
    "pipeline": (ml.make_pipeline(ml.StandardScaler(), ml.LogisticRegression()), X, y, "predict"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_gives_the_same(name, tmp_path):
    model, rows, labels, method = MODELS[name]
    model.fit(rows, labels)
    ml.save(model, tmp_path / "model")
    loaded = ml.load(tmp_path / "model")

    assert type(loaded) is type(model)
    assert np.array_equal(getattr(loaded, method)(rows), getattr(model, method)(rows))
    assert str(loaded.get_params()) == str(model.get_params())


@pytest.mark.parametrize("model", [ml.CountVectorizer(), ml.TfidfVectorizer()])
def test_a_vectoriser(model, tmp_path):
    ml.save(model.fit(TEXTS), tmp_path / "model")
    loaded = ml.load(tmp_path / "model")

    np.testing.assert_array_equal(loaded.transform(TEXTS).toarray(), model.transform(TEXTS).toarray())


def test_a_version_of_an_online_model(tmp_path):
    points = [(float(n % 5), float(n % 3)) for n in range(32)]
    (version,) = SimulatedJob(ml.OnlineKMeans(3).learn(local(points))).run()
    ml.save(version.model, tmp_path / "model")

    assert ml.load(tmp_path / "model").predict(points) == version.model.predict(points)


def test_what_has_no_safe_form_is_refused(tmp_path):
    model = ml.PartitionClassifier(DecisionTreeClassifier()).fit(X, y)
    with pytest.raises(InvalidProgram, match="PartitionClassifier"):
        ml.save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_in_the_arrays_is_not_run(tmp_path):
    ml.save(ml.StandardScaler().fit(X), tmp_path / "model")
    trap = np.array([Touch(tmp_path / "trap")], dtype=object)
    header = json.loads((tmp_path / "model" / "model.json").read_text())
    names = [
        value["array"] for value in header["model"]["values"].values() if isinstance(value, dict) and "array" in value
    ]
    np.savez(tmp_path / "model" / "arrays.npz", allow_pickle=True, **dict.fromkeys(names, trap))

    with pytest.raises(InvalidProgram):
        ml.load(tmp_path / "model")
    assert not (tmp_path / "trap").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(version=99),
        lambda header: header.update(format="other"),
        lambda header: header["model"].update(object="Popen"),
        lambda header: header["model"]["values"].update(mean_={"array": "none"}),
        lambda header: header["model"]["values"].update(__class__=1),
        lambda header: header.pop("model"),
    ],
)
def test_a_header_that_is_wrong_is_refused(change, tmp_path):
    ml.save(ml.StandardScaler().fit(X), tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    header = json.loads(file.read_text())
    change(header)
    file.write_text(json.dumps(header))

    with pytest.raises(InvalidProgram, match="load"):
        ml.load(tmp_path / "model")


def test_files_that_are_no_model_are_refused(tmp_path):
    (tmp_path / "model.json").write_bytes(pickle.dumps(1))
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InvalidProgram, match="save"):
            ml.load(path)
    ml.save(ml.StandardScaler().fit(X), tmp_path / "model")
    with pytest.raises(InvalidProgram, match="exists"):
        ml.save(ml.StandardScaler().fit(X), tmp_path / "model")
