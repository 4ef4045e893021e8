"""Which rows `attack` uses: those of the search that made the ticket, of a YAML, or of a source."""

import shutil

import pytest

from tune_tickets.api.attack import find_ground
from tune_tickets.errors import ConfigError

PAIR = ("premise", "hypothesis")


def test_a_ticket_in_its_results_folder_is_attacked_on_the_rows_of_its_search(tiny_yaml, tmp_path):
    shutil.copy(tiny_yaml, tmp_path / "config.yaml")
    ticket = tmp_path / "best_ticket.safetensors"
    ticket.touch()
    ground = find_ground(str(ticket), ("text",), None, None, [])
    assert ground.searched
    assert ground.settings.evaluation.rows == 8
    assert ground.settings.task.rows.select == 48
    named = find_ground("elsewhere.ticket", ("text",), str(tiny_yaml), None, ["task.max_length=16"])
    assert named.searched
    assert named.settings.task.max_length == 16


def test_a_ticket_saved_for_a_further_task_is_attacked_on_the_rows_of_that_task(tiny_yaml, tmp_path):
    (tmp_path / "config.yaml").write_text(
        tiny_yaml.read_text(encoding="utf-8") + "transfer: {imdb: {task: {max_length: 20}}}\n", encoding="utf-8"
    )
    lengths = []
    for name in ("best_ticket.imdb.safetensors", "best_ticket.safetensors"):
        (tmp_path / name).touch()
        lengths.append(find_ground(str(tmp_path / name), ("text",), None, None, []).settings.task.max_length)
    assert lengths == [20, 24]


def test_any_other_model_is_attacked_on_the_bundled_task_or_the_source_named():
    ground = find_ground("some/model", None, None, None, [])
    assert not ground.searched
    assert (ground.settings.task.source, ground.settings.task.columns) == ("bundled/rotten-tomatoes", ("text",))
    named = find_ground("some/model", None, "reviews.csv", "review", ["task.label=stars"]).settings.task
    assert (named.source, named.columns, named.label) == ("reviews.csv", ("review",), "stars")


def test_a_ticket_brings_its_columns_and_of_a_pair_one_is_chosen():
    task = find_ground("a.ticket", PAIR, "pairs.csv", "hypothesis", []).settings.task
    assert (task.columns, task.attacked) == (PAIR, "hypothesis")
    task = find_ground("some/model", None, "pairs.csv", "q2", ["task.text=[q1, q2]"]).settings.task
    assert (task.columns, task.attacked) == (("q1", "q2"), "q2")
    with pytest.raises(ConfigError, match="needs the column that attacks may change"):
        find_ground("a.ticket", PAIR, "pairs.csv", None, [])
    with pytest.raises(ConfigError, match="'claim', which is not one of the text columns"):
        find_ground("a.ticket", PAIR, "pairs.csv", "claim", [])


def test_the_column_can_be_changed_in_an_experiment_too(tiny_yaml):
    task = find_ground("a.ticket", None, str(tiny_yaml), "review", []).settings.task
    assert task.columns == ("review",)
    pair = ["task.text=[premise, hypothesis]", "task.attacked=premise"]
    task = find_ground("a.ticket", None, str(tiny_yaml), "hypothesis", pair).settings.task
    assert (task.columns, task.attacked) == (PAIR, "hypothesis")


def test_overrides_of_anything_but_the_task_are_refused(tiny_yaml):
    for data in (None, str(tiny_yaml)):
        with pytest.raises(ConfigError, match=r"'search\.trials=2': only keys of the task"):
            find_ground("a.ticket", None, data, None, ["search.trials=2"])
    with pytest.raises(ConfigError, match=r"task\.lable: unknown key; did you mean 'label'"):
        find_ground("a.ticket", None, None, None, ["task.lable=x"])
