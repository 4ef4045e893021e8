"""The bias model as a regression: optimal, calibrated, and with folds fitted without a row's own fold."""

import numpy as np
import pytest

from tune_tickets.data.bias import fit_bias_model
from tune_tickets.errors import DataError

NAMES = ("no", "maybe", "yes")


def test_the_regression_is_where_the_gradient_of_its_objective_is_zero():
    random = np.random.default_rng(0)
    features = random.normal(size=(90, 4))
    labels = np.arange(90) % 3
    features[:, 0] += labels
    fitted = fit_bias_model(features, labels, NAMES, None, seed=0)
    shares = np.exp(fitted.log_probabilities)
    assert shares.sum(axis=1) == pytest.approx(1)
    errors = shares - np.eye(3)[labels]
    # Half the squared norm of the coefficients, plus the sum of log losses; the intercept is not penalised.
    assert fitted.regression.coef_ + errors.T @ features == pytest.approx(np.zeros((3, 4)), abs=0.02)
    assert errors.sum(axis=0) == pytest.approx(np.zeros(3), abs=0.02)
    assert fitted.accuracy(features, labels) == 100 * (shares.argmax(axis=1) == labels).mean() > 45


def test_a_planted_marker_gives_its_share_of_the_labels():
    """900 of 1,000 rows of each label have their own marker: the bias degree is about 0.9 and 0.1."""
    labels = np.repeat([0, 1], 1000)
    own = np.tile(np.arange(1000) < 900, 2)
    marker = np.where(own, labels, 1 - labels)
    fitted = fit_bias_model(np.eye(2)[marker], labels, ("bad", "good"), None, seed=0)
    degree = np.exp(fitted.log_probabilities[np.arange(2000), labels])
    assert degree[own] == pytest.approx(np.full(1800, 0.9), abs=0.01)
    assert degree[~own] == pytest.approx(np.full(200, 0.1), abs=0.01)
    assert fitted.accuracy(np.eye(2)[marker], labels) == 90.0


def test_with_folds_a_row_is_predicted_by_models_that_have_not_seen_it():
    labels = np.arange(60) % 3
    features = np.eye(60)  # each row gives itself away, and nothing else
    seen = fit_bias_model(features, labels, NAMES, None, seed=1).log_probabilities
    unseen = fit_bias_model(features, labels, NAMES, 5, seed=1).log_probabilities
    assert (seen.argmax(axis=1) == labels).all()
    assert np.exp(unseen) == pytest.approx(np.full((60, 3), 1 / 3), abs=0.01)


def test_other_seeds_make_other_folds_and_the_same_seed_the_same():
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(60, 2)), np.arange(60) % 3
    one, same, other = (fit_bias_model(features, labels, NAMES, 3, seed).log_probabilities for seed in (1, 1, 2))
    assert (one == same).all()
    assert not (one == other).all()


def test_a_label_with_too_few_rows_is_refused():
    with pytest.raises(DataError, match="label 'maybe' has 0 training rows"):
        fit_bias_model(np.eye(4), np.array([0, 2, 0, 2]), NAMES, None, seed=0)
    with pytest.raises(DataError, match=r"in 3 folds; lower debiasing\.bias\.folds"):
        fit_bias_model(np.eye(6), np.array([0, 1, 2, 0, 1, 2]), NAMES, 3, seed=0)
