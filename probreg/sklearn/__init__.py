"""Models as scikit-learn estimators: `Regressor` and `Classifier`, for pipelines, grid searches and cross-validation.

Each builds a `Model` of the arrays that it is given and calls `fit`. The labelled result is the attribute `fit_`, the
input of summaries, comparisons and pictures. See docs/how-to/scikit-learn.md.
"""

try:
    import sklearn as sklearn
except ImportError as error:
    raise ImportError(
        "probreg.sklearn needs scikit-learn: pip install scikit-learn"
    ) from error

from probreg.sklearn.estimator import Classifier, Regressor

__all__ = ["Classifier", "Regressor"]
