"""The driver of a hyperparameter search: Ray Tune, Optuna, controls, confirmation, plan."""
