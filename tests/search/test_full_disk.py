"""A full disk is reported as such, whichever library raises; other errors stay the same."""

from pathlib import Path

import optuna
import pytest
from sqlalchemy import event

from tune_tickets.errors import ConfigError, SearchStopped
from tune_tickets.results.folder import Results
from tune_tickets.search.closing import naming_a_full_disk


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path, str(tmp_path / "store"))


def test_a_file_that_cannot_be_written(results):
    with pytest.raises(SearchStopped, match="the disk is full") as told, naming_a_full_disk(results):
        Path("/dev/full").write_text("x", encoding="utf-8")
    assert f"then run: tune-tickets resume {results.folder}" in str(told.value)


def test_a_database_that_cannot_grow(results):
    storage = optuna.storages.RDBStorage(f"sqlite:///{results.optuna}")
    study = optuna.create_study(storage=storage)

    @event.listens_for(storage.engine, "checkout")
    def stop_growing(connection, *more) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(SearchStopped, match="the disk is full"), naming_a_full_disk(results):
        study.set_user_attr("much", "x" * 1_000_000)


@pytest.mark.parametrize("error", [ConfigError("a wrong key"), ValueError("a bug"), PermissionError(13, "no")])
def test_other_errors_are_left_as_they_are(results, error):
    with pytest.raises(type(error)) as told, naming_a_full_disk(results):
        raise error
    assert told.value is error
