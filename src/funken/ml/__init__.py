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
from funken.ml.base import EstimatorPipeline as Pipeline
from funken.ml.base import FeatureWeight, explain, make_pipeline, train_test_split
from funken.ml.online import (
    Drift,
    DriftDetector,
    Evaluation,
    ModelVersion,
    OnlineKMeans,
    OnlineLearner,
    OnlineLogisticRegression,
    OnlineStandardScaler,
    Prediction,
    RiverLearner,
)
from funken.ml.persistence import load, save
from funken.ml.preprocessing.discretizers import Binarizer, Bucketizer, IndexToString, KBinsDiscretizer, StringIndexer
from funken.ml.preprocessing.transformers import (
    CountVectorizer,
    HashingVectorizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    SelectKBest,
    SimpleImputer,
    StandardScaler,
    TfidfTransformer,
    TfidfVectorizer,
    VarianceThreshold,
)
from funken.ml.preprocessing.vectors import FeatureHasher, MinHashLSH, VectorAssembler, VectorSlicer
from funken.ml.training.als import ALS
from funken.ml.training.linear import (
    ElasticNet,
    GaussianNB,
    Lasso,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MultinomialNB,
    MultipleLinearRegression,
    Ridge,
)
from funken.ml.training.neighbors import (
    AgglomerativeClustering,
    KMeans,
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
    PartitionClassifier,
    PartitionRegressor,
)

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
