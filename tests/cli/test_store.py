"""`tune-tickets store`: what it shows, which damage it finds, what it removes and when it refuses."""

from pathlib import Path

import pytest

from tests.search.test_pruning import experiment_in, finish
from tune_tickets.cli.app import main
from tune_tickets.engine.store import Store
from tune_tickets.methods.stages import Draw


@pytest.fixture
def results(tmp_path) -> Path:
    """Two experiments on one store, and a stage that neither uses."""
    folder = tmp_path / "results"
    store = Store(str(folder / "store"))
    digests = [finish(store, "retrain", number, "ticket.safetensors") for number in range(3)]
    finish(store, "draw", 0, "mask.safetensors")
    experiment_in(folder / "old", {digests[0]: 0.9, digests[1]: 0.1}, age=500)
    experiment_in(folder / "new", {digests[0]: 0.9})
    return folder


def call(capsys, *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["store", *map(str, words)])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out + told.err


@pytest.mark.parametrize("words", [[""], ["list", ""], ["", "--store", "store"], ["list", "new"]])
def test_list_tells_sizes_users_and_orphans(results, capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "200")
    code, told = call(capsys, *(word if word in ("list", "--store") else results / word for word in words))
    assert code == 0, told
    rows = {line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]] for line in told.splitlines()
            if line.count("│") > 3}  # fmt: skip
    assert rows["retrain"][0] == "3"
    assert rows["retrain"][3].startswith("1 (")
    assert rows["draw"][3].startswith("1 (")
    assert rows[str(results / "new")][0] == "1"
    assert rows[str(results / "old")][0] == "2"


def test_experiments_keep_their_whole_names_in_a_narrow_terminal(results, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert "…" not in call(capsys, "list", results)[1]


def test_verify_ends_with_1_until_the_damage_is_moved_aside(results, capsys):
    assert call(capsys, "verify", results)[0] == 0
    [blob, *_] = sorted((results / "store" / "retrain").rglob("ticket.safetensors"))
    blob.write_bytes(b"changed")
    next((results / "store" / "draw").rglob("result.json")).write_text("{")
    code, told = call(capsys, "verify", results)
    assert code == 1
    assert "4 stages" in told
    assert "2 damaged." in told
    assert "ticket.safetensors is changed" in told
    assert "is not readable" in told
    code, told = call(capsys, "verify", results, "--mend")
    assert (code, "moved to the quarantine" in told) == (0, True)
    assert len(list((results / "store" / "quarantine").rglob("reason.json"))) == 2
    assert [path.read_bytes() for path in (results / "store" / "quarantine").rglob("ticket.safetensors")] == [
        b"changed"
    ]
    assert call(capsys, "verify", results)[0] == 0


@pytest.mark.parametrize(
    ("written", "found"),
    [("[]", "is not readable"), ('{"stage": "draw"}', "is not readable"), (None, "does not match the digest")],
)
def test_verify_finds_a_recipe_that_describes_another_stage(results, capsys, written, found):
    [recipe] = (results / "store" / "draw").rglob("stage.json")
    recipe.write_text(written or recipe.read_text().replace('"number": 0', '"number": 1'))
    code, told = call(capsys, "verify", results)
    assert (code, f"stage.json {found}" in told, "1 damaged." in told) == (1, True, True), told
    assert call(capsys, "verify", results, "--mend")[0] == 0
    assert call(capsys, "verify", results)[0] == 0


def test_a_recipe_of_an_earlier_version_of_the_code_is_not_damage(results, capsys, monkeypatch):
    monkeypatch.setattr(Draw, "version", Draw.version + 1)
    assert call(capsys, "verify", results)[0] == 0


def test_prune_only_says_what_would_go_unless_it_is_told_to(results, capsys):
    files = sorted(results.rglob("*"))
    code, told = call(capsys, "prune", results, "--keep-last", 1)
    assert code == 0
    assert "weights (retrain): 1, 28 bytes" in told
    assert "nothing was removed" in told
    assert sorted(results.rglob("*")) == files
    code, told = call(capsys, "prune", results, "--keep-last", 1, "--yes")
    assert (code, "28 bytes freed." in told) == (0, True)
    assert len(list((results / "store").rglob("ticket.safetensors"))) == 2


def test_a_place_without_a_store_is_named(tmp_path, capsys):
    code, told = call(capsys, "list", tmp_path)
    assert (code, "there is no stage store in" in told) == (2, True)
    code, told = call(capsys, "verify", "--store", f"memory://{tmp_path.name}-none")
    assert (code, "is empty or does not exist" in told) == (2, True)
