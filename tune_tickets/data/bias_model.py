"""The bias model: logistic regression, and what it says of rows it has or has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from tune_tickets.data.word_vectors import Array
from tune_tickets.errors import DataError

Labels = NDArray[np.int64]
_ITERATIONS = 1000


@dataclass(frozen=True, eq=False)
class Fitted:
    """A bias model, and its log-probabilities [rows, labels] of the rows it was fitted on."""

    regression: LogisticRegression
    log_probabilities: Array

    def accuracy(self, features: Array, labels: Labels) -> float:
        """Percent of the rows whose label the features give away."""
        return 100.0 * float((self.regression.predict(features) == labels).mean())


def fit_bias_model(features: Array, labels: Labels, names: Sequence[str], folds: int | None, seed: int) -> Fitted:
    """Fit on all rows. With `folds`, the prediction for a row is that of a model fitted without its fold."""
    _check(labels, names, folds)
    regression = _fit(features, labels)
    if folds is None:
        return Fitted(regression, regression.predict_log_proba(features))
    log_probabilities = np.empty((len(labels), len(names)))
    for rest, fold in StratifiedKFold(folds, shuffle=True, random_state=seed).split(features, labels):
        log_probabilities[fold] = _fit(features[rest], labels[rest]).predict_log_proba(features[fold])
    return Fitted(regression, log_probabilities)


def _fit(features: Array, labels: Labels) -> LogisticRegression:
    return LogisticRegression(max_iter=_ITERATIONS).fit(features, labels)


def _check(labels: Labels, names: Sequence[str], folds: int | None) -> None:
    counts = np.bincount(labels, minlength=len(names))
    rarest = int(counts.argmin())
    if counts[rarest] < (folds or 1):
        raise DataError(
            f"label {names[rarest]!r} has {counts[rarest]} training rows, which is too few for a bias model"
            + ("" if folds is None else f" in {folds} folds; lower debiasing.bias.folds or bring more rows")
        )
