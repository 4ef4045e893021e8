from io import BytesIO

import pyarrow.parquet
import pytest

from tune_tickets.attacks.records import AttackRecord, figures, read_parquet, write_groups, write_parquet
from tune_tickets.errors import DataError


def record(index, status, queries=1, words_changed=0.0, similarity=None):
    wrong_at_once, changed = status == "skipped", status != "failed"
    return AttackRecord(
        index=index,
        texts=("a film", "one\x00 thing 😀"),
        perturbed_texts=("a movie", "one\x00 thing 😀"),
        label=1,
        prediction=0 if wrong_at_once else 1,
        perturbed_prediction=0 if changed else 1,
        status=status,
        queries=queries,
        words_changed=words_changed,
        similarity=similarity,
    )


RECORDS = [
    record(7, "failed", queries=40, words_changed=50.0, similarity=0.5),
    record(3, "successful", queries=10, words_changed=10.0, similarity=0.9),
    record(9, "skipped"),
    record(1, "successful", queries=31, words_changed=30.0, similarity=0.8),
    record(2, "failed", queries=19, words_changed=5.0, similarity=0.95),
]


def test_figures_follow_the_definitions_of_the_papers():
    measured = figures(RECORDS, "textfooler/minilm", "abc")
    assert (measured.threat, measured.fingerprint) == ("textfooler/minilm", "abc")
    assert measured.rows == 5
    assert measured.clean == 80.0  # 4 of 5 right before any change
    assert measured.accuracy_under_attack == 40.0  # 2 failed attacks of 5 rows
    assert measured.success_rate == 50.0  # 2 of 4 attacked
    assert measured.queries == 25.0  # (40 + 10 + 31 + 19) / 4
    assert measured.words_changed == 20.0  # successes only
    assert measured.similarity == pytest.approx(0.85)
    assert measured.skipped == 1
    assert measured.survived == (True, False, False, False, True)
    # Wilson for 2 of 5, z = 1.959964: centre (2 + z²/2) / (5 + z²), half-width z sqrt(5 · 0.4 · 0.6 + z²/4) / (5 + z²)
    assert measured.interval == pytest.approx((11.762077, 76.927615), abs=1e-4)


def test_the_digest_of_the_rows_stands_beside_the_figures():
    assert figures(RECORDS, "t", "f", sample="0123").sample == "0123"


def test_nothing_to_attack_and_nothing_broken_give_zeros_not_errors():
    all_wrong = figures([record(0, "skipped"), record(1, "skipped")], "t", "f")
    assert (all_wrong.clean, all_wrong.accuracy_under_attack, all_wrong.success_rate) == (0.0, 0.0, 0.0)
    assert (all_wrong.queries, all_wrong.words_changed, all_wrong.similarity) == (0.0, 0.0, None)
    all_held = figures([record(0, "failed", queries=4, similarity=0.9)], "t", "f")
    assert (all_held.accuracy_under_attack, all_held.success_rate, all_held.similarity) == (100.0, 0.0, None)


def test_no_records_are_an_error():
    with pytest.raises(DataError, match="textfooler/minilm"):
        figures([], "textfooler/minilm", "abc")


def test_every_text_survives_the_way_through_parquet(tmp_path):
    write_parquet(RECORDS, tmp_path / "attacked.parquet")
    assert read_parquet(tmp_path / "attacked.parquet") == RECORDS
    write_parquet([], tmp_path / "none.parquet")
    assert read_parquet(tmp_path / "none.parquet") == []


def test_records_can_be_read_from_bytes(tmp_path):
    write_parquet(RECORDS, tmp_path / "attacked.parquet")
    assert read_parquet(BytesIO((tmp_path / "attacked.parquet").read_bytes())) == RECORDS


def test_several_attacks_share_a_file_and_can_be_told_apart(tmp_path):
    path = tmp_path / "all.parquet"
    write_groups([({"model": "a", "threat": "x/y"}, RECORDS), ({"model": "b", "threat": "x/y"}, RECORDS[:1])], path)
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert [row["model"] for row in rows] == ["a"] * 5 + ["b"]
    assert [row["index"] for row in rows] == [7, 3, 9, 1, 2, 7]
    assert rows[5]["texts"] == ["a film", "one\x00 thing 😀"]
    assert list(rows[0])[:3] == ["model", "threat", "index"]


def test_rejections_are_shares_of_all_candidates():
    measured = figures(RECORDS, "t", "f", rejected={"sentence similarity": 30, "part of speech": 6}, candidates=48)
    assert measured.candidates == 48
    assert measured.rejected == {"sentence similarity": 62.5, "part of speech": 12.5}
    nothing = figures(RECORDS, "t", "f", rejected={"sentence similarity": 0})
    assert (nothing.candidates, nothing.rejected) == (0, {"sentence similarity": 0.0})
