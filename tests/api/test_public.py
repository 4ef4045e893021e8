"""The public names of `tune_tickets`: all exist, and none is imported before it is used."""

import subprocess
import sys

import pytest

import tune_tickets


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, tune_tickets; print(sorted({'torch', 'ray', 'mlflow', 'rich', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_an_experiment_is_read_without_torch_and_ray():
    code = "import sys, tune_tickets; tune_tickets.Experiment; print({'torch', 'ray', 'mlflow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_every_public_name_is_there_and_documented():
    for name in tune_tickets.__all__:
        assert name in dir(tune_tickets)
        assert name == "__version__" or getattr(tune_tickets, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'jackpot'"):
        _ = tune_tickets.jackpot
