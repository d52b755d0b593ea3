"""Machine learning: scikit-learn's estimators on data sets, streams and Spark ``DataFrame`` objects, and learning on streams.

A library: may import the public surface of ``funken`` and ``funken.dataset``, ``config``, ``errors``,
``extras`` and ``ids``.

>>> from funken.dataset import ExecutionEnvironment
>>> from funken.ml import LinearRegression
>>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
>>> model = LinearRegression().fit(env.from_elements((0.0, 1.0), (1.0, 3.0), (2.0, 5.0)), y=1)
>>> model.coef_.round(6).tolist(), round(model.intercept_, 6)
([2.0], 1.0)
"""

import funken.ml.packages  # noqa: F401 - an absent package is named with its extra
from funken.ml import data, metrics, online, preprocessing, training
from funken.ml.explain import FeatureWeight, explain
from funken.ml.online.learners import OnlineKMeans, OnlineLearner, OnlineLogisticRegression, OnlineStandardScaler
from funken.ml.online.operators import Evaluation, ModelVersion, Prediction
from funken.ml.online.river import Drift, DriftDetector, RiverLearner
from funken.ml.persistence import load, save
from funken.ml.pipeline import EstimatorPipeline as Pipeline
from funken.ml.pipeline import make_pipeline, train_test_split
from funken.ml.preprocessing.discretizers import Binarizer, Bucketizer, IndexToString, KBinsDiscretizer, StringIndexer
from funken.ml.preprocessing.encoders import LabelEncoder, OneHotEncoder, OrdinalEncoder, SimpleImputer
from funken.ml.preprocessing.scalers import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from funken.ml.preprocessing.selection import SelectKBest, VarianceThreshold
from funken.ml.preprocessing.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from funken.ml.preprocessing.vectors import FeatureHasher, MinHashLSH, VectorAssembler, VectorSlicer
from funken.ml.training.als import ALS
from funken.ml.training.bayes import GaussianNB, MultinomialNB
from funken.ml.training.classifiers import LinearSVC, LogisticRegression
from funken.ml.training.clustering import KMeans
from funken.ml.training.descent import MultipleLinearRegression
from funken.ml.training.ensembles import PartitionClassifier, PartitionRegressor
from funken.ml.training.hierarchy import AgglomerativeClustering
from funken.ml.training.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from funken.ml.training.regression import ElasticNet, Lasso, LinearRegression, Ridge

__all__ = [
    "ALS",
    "AgglomerativeClustering",
    "Binarizer",
    "Bucketizer",
    "CountVectorizer",
    "Drift",
    "DriftDetector",
    "ElasticNet",
    "Evaluation",
    "FeatureHasher",
    "FeatureWeight",
    "GaussianNB",
    "HashingVectorizer",
    "IndexToString",
    "KBinsDiscretizer",
    "KMeans",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "LabelEncoder",
    "Lasso",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MaxAbsScaler",
    "MinHashLSH",
    "MinMaxScaler",
    "ModelVersion",
    "MultinomialNB",
    "MultipleLinearRegression",
    "NearestNeighbors",
    "Normalizer",
    "OneHotEncoder",
    "OnlineKMeans",
    "OnlineLearner",
    "OnlineLogisticRegression",
    "OnlineStandardScaler",
    "OrdinalEncoder",
    "PartitionClassifier",
    "PartitionRegressor",
    "Pipeline",
    "PolynomialFeatures",
    "Prediction",
    "Ridge",
    "RiverLearner",
    "RobustScaler",
    "SelectKBest",
    "SimpleImputer",
    "StandardScaler",
    "StringIndexer",
    "TfidfTransformer",
    "TfidfVectorizer",
    "VarianceThreshold",
    "VectorAssembler",
    "VectorSlicer",
    "data",
    "explain",
    "load",
    "make_pipeline",
    "metrics",
    "online",
    "preprocessing",
    "save",
    "train_test_split",
    "training",
]
