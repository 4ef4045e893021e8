"""What a session tells its workers, and addresses it refuses."""

import pytest

from tune_tickets.config.resources import Resources
from tune_tickets.errors import ResourceError
from tune_tickets.trial.ground import ENVIRONMENT, Ground
from tune_tickets.tuning.session import _environment, ray_session


def test_workers_are_told_our_variables_but_not_where_ray_keeps_its_files(monkeypatch, tmp_path):
    monkeypatch.setenv("TUNE_TICKETS_TAGGER", "/shared/tagger")
    monkeypatch.setenv("TUNE_TICKETS_RAY_DIR", "/tmp/mine")
    monkeypatch.setenv("TUNE_TICKETS_DRIVER_ONLY", "of another driver")
    monkeypatch.setenv("TUNE_TICKETS_OFFLINE", "yes")
    monkeypatch.setenv("HF_TOKEN", "secret")
    told = _environment([tmp_path / "optuna.db"], Ground({}, "s3://bucket/store", "token"))["env_vars"]
    assert told["TUNE_TICKETS_TAGGER"] == "/shared/tagger"
    assert told["TUNE_TICKETS_DRIVER_ONLY"] == str(tmp_path / "optuna.db")
    assert told["TUNE_TICKETS_OFFLINE"] == told["HF_HUB_OFFLINE"] == "1"
    assert "s3://bucket/store" in told[ENVIRONMENT]
    assert not {"TUNE_TICKETS_RAY_DIR", "HF_TOKEN", "PATH"} & set(told)
    assert ENVIRONMENT not in _environment([], None)["env_vars"]


def test_a_ray_client_is_refused_with_the_way_to_go(tmp_path):
    refused = pytest.raises(ResourceError, match=r"cannot be driven through a Ray client.*ray job submit")
    with refused, ray_session(Resources(address="ray://head:10001"), [], str(tmp_path)):
        pass
    assert not list((tmp_path / "nodes").iterdir())
