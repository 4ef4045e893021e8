"""What a search shows of its attacks: substitutions of the winner, from the stage store."""

import pytest

from tests.reports.conftest import make_outcome, make_trial
from tests.stages import Stage
from tune_tickets.attacks.records import AttackRecord, write_parquet
from tune_tickets.attacks.threat import get_threat
from tune_tickets.engine.store import Store
from tune_tickets.results.records import ControlRecord, StageRecord
from tune_tickets.search.closing import threat_records, write_substitutions

FOOLER, BUGGER = "textfooler/minilm", "textbugger/minilm"


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


@pytest.fixture
def attacked(store, tmp_path):
    """Put a finished attack stage into the store in which every `film` became `new`."""

    def keep(threat: str, new: str) -> StageRecord:
        stage = Stage("attack", {"threat": threat, "new": new})
        before, after = ("a film \x1b[31mof note",), (f"a {new} \x1b[31mof note",)
        write_parquet([AttackRecord(4, "successful", 9, 25.0, 0.9, before, after, 1, 1, 0)], tmp_path / "a.parquet")
        attempt = store.begin(stage)
        attempt.put("attacked.parquet", (tmp_path / "a.parquet").read_bytes())
        attempt.finish({"threat": threat}, seconds=1.0)
        return StageRecord(name="attack", digest=stage.digest, cached=False, seconds=1.0)

    return keep


THREATS = [get_threat(name) for name in (FOOLER, BUGGER)]


def test_the_winner_is_shown_before_the_controls(store, attacked, tmp_path):
    winner = make_trial(3, stages=(attacked(FOOLER, "movie"), attacked(BUGGER, "fi lm")))
    dense = ControlRecord(kind="dense", seed=0, outcome=make_outcome(), stages=(attacked(FOOLER, "picture"),))
    fooler, bugger = threat_records(THREATS, 0, [winner], [dense], store)
    assert (fooler.name, fooler.substitutions_of) == (FOOLER, "t3")
    assert [(one.old, one.new) for one in fooler.substitutions] == [("film", "movie")]
    assert [(one.old, one.new) for one in bugger.substitutions] == [("film", "fi lm")]
    assert fooler.fingerprint == get_threat(FOOLER).fingerprint

    write_substitutions([fooler, bugger], tmp_path / "substitutions.txt")
    page = (tmp_path / "substitutions.txt").read_text(encoding="utf-8")
    assert "textfooler/minilm against t3: 1 random substitutions" in page
    assert r"0.90 success  a [[film -> movie]] \x1b[31mof note" in page
    assert "\x1b" not in page


def test_without_a_winner_the_dense_control_is_shown(store, attacked):
    dense = ControlRecord(kind="dense", seed=0, outcome=make_outcome(), stages=(attacked(FOOLER, "picture"),))
    fooler, bugger = threat_records(THREATS, 0, [], [dense], store)
    assert fooler.substitutions_of == "dense"
    assert fooler.substitutions[0].new == "picture"
    assert (bugger.substitutions_of, bugger.substitutions) == (None, ())


def test_nothing_attacked_and_damaged_files_leave_no_page_and_no_error(store, attacked, tmp_path):
    assert all(threat.substitutions_of is None for threat in threat_records(THREATS, 0, [], [], store))
    winner = make_trial(0, stages=(attacked(FOOLER, "movie"),))
    for blob in (tmp_path / "store").rglob("attacked.parquet"):
        blob.write_bytes(b"damaged")
    threats = threat_records(THREATS, 0, [winner], [], store)
    assert all(threat.substitutions == () for threat in threats)
    write_substitutions(threats, tmp_path / "substitutions.txt")
    assert not (tmp_path / "substitutions.txt").exists()
