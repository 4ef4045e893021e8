"""A node with other packages or another store is refused, with the reason."""

import json
import os
from dataclasses import replace

import pytest

from tune_tickets.engine import node as module
from tune_tickets.engine.node import ENVIRONMENT, check_node, common_ground, has_written, packages_here, problems_here
from tune_tickets.errors import ResourceError, StoreError


@pytest.fixture
def ground(tmp_path):
    with common_ground(str(tmp_path / "store")) as found:
        yield found


@pytest.fixture(autouse=True)
def fresh_process():
    check_node.cache_clear()
    yield
    check_node.cache_clear()


def test_a_node_like_the_driver_has_no_problems_and_leaves_a_trace(ground):
    assert not has_written(ground, "node-1")
    assert problems_here(ground, "node-1") == []
    assert has_written(ground, "node-1")


def test_the_token_goes_with_the_driver(tmp_path):
    with common_ground(str(tmp_path)) as ground:
        assert [path.name for path in (tmp_path / "nodes" / ground.token).iterdir()] == ["token"]
    assert list((tmp_path / "nodes").iterdir()) == []


def test_another_version_is_named_with_both_sides(ground):
    wanted = replace(ground, packages={**ground.packages, "torch": "1.0", "python": "3.9.1"})
    problems = problems_here(wanted, "node-1")
    assert len(problems) == 2
    assert f"torch is {packages_here()['torch']} there and 1.0 with the driver" in problems[1]
    assert problems[0].startswith("python is 3.11")


def test_versions_are_those_that_are_imported_and_code_of_one_version_is_told_apart(monkeypatch, tmp_path):
    import torch
    import transformers

    here = packages_here()
    assert here["torch"] == torch.__version__
    assert here["transformers"] == transformers.__version__
    changed = tmp_path / "tune_tickets"
    changed.mkdir()
    (changed / "__init__.py").write_text("")
    monkeypatch.setattr(module.tune_tickets, "__file__", str(changed / "__init__.py"))
    assert packages_here()["tune_tickets"] != here["tune_tickets"]
    assert packages_here()["tune_tickets"].split()[0] == here["tune_tickets"].split()[0]


def test_a_store_that_is_not_the_drivers_is_no_store(ground, tmp_path):
    [problem] = problems_here(replace(ground, store_url=str(tmp_path / "another")), "node-1")
    assert "cannot be read there (FileNotFoundError" in problem
    assert "--store" in problem
    (tmp_path / "store" / "nodes" / ground.token / "token").write_text("of another driver")
    [problem] = problems_here(ground, "node-1")
    assert "has a different content there" in problem


def test_a_store_whose_protocol_is_unknown_there_is_a_problem_not_a_crash(ground):
    [problem] = problems_here(replace(ground, store_url="nosuch://bucket/store"), "node-1")
    assert "cannot be read there (StoreError" in problem
    assert "Protocol not known: nosuch" in problem


def test_a_store_that_cannot_be_written_there_is_a_problem(ground, tmp_path):
    (tmp_path / "store" / "nodes" / ground.token / "node-1").mkdir()  # in the way of the file; root heeds no mode bits
    [problem] = problems_here(ground, "node-1")
    assert "cannot be written there" in problem


def test_a_driver_that_cannot_write_its_store_says_so_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"), common_ground(str(tmp_path / "file" / "store")):
        pass


def test_a_worker_checks_its_node_before_its_first_stage(ground, monkeypatch):
    check_node()  # a local session tells nothing, so there is nothing to check
    check_node.cache_clear()
    assert json.loads(ground.environment()[ENVIRONMENT])["token"] == ground.token
    monkeypatch.setenv(ENVIRONMENT, ground.environment()[ENVIRONMENT])
    check_node()
    check_node.cache_clear()
    told = replace(ground, packages={**ground.packages, "textattack": "0.2"}).environment()[ENVIRONMENT]
    monkeypatch.setenv(ENVIRONMENT, told)
    for _ in range(2):
        with pytest.raises(ResourceError, match=rf"node {os.uname().nodename} cannot take part: textattack is 0"):
            check_node()
