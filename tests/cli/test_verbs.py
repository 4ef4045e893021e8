"""The verbs that only read, and how fast `--help` answers."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tune_tickets.cli.app import main
from tune_tickets.config import load_experiment
from tune_tickets.config.schema import json_schema
from tune_tickets.search.space import warm_starts

ROOT = Path(__file__).parent.parent.parent
SPACES = sorted((ROOT / "search_spaces").rglob("*.yaml"))


def test_help_needs_no_heavy_import():
    code = (
        "import sys\n"
        "from tune_tickets.cli.app import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'ray', 'mlflow', 'optuna', 'textattack', 'pandas', 'scipy', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip().endswith("[]")
    for verb in ("run", "init", "validate", "plan", "attack", "predict", "fetch", "ui", "pictures"):
        assert verb in printed


@pytest.mark.parametrize("verb", ["run", "resume", "compare", "pictures", "fetch", "attack", "predict", "ui"])
def test_the_usage_line_has_each_bracket_once(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main_ended([verb, "--help"])
    (usage,) = [line for line in capsys.readouterr().out.splitlines() if "Usage:" in line]
    assert not re.search(r"\[\[|\.\.\.[\]}]", usage)


def test_validate_says_what_it_found(tiny_yaml, capsys):
    main_ended(["validate", str(tiny_yaml)])
    printed = capsys.readouterr().out
    assert "3 search domains" in printed
    assert "128 train, 48 select and 32 report rows" in printed
    assert "2 layers of 4 heads and 48 neurons" in printed


def test_validate_and_plan_name_the_ood_twins(tiny_yaml, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    planted = "task.planted={markers: [x, z], rows: {select: 16, report: 8}}"
    main_ended(["validate", str(tiny_yaml), planted])
    assert "OOD twin reversed with 16 select and 8 report rows" in capsys.readouterr().out
    main_ended(["plan", str(tiny_yaml), planted])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " ood " in line]
    assert [cell.strip() for cell in line.split("│")[1:6]] == ["ood", "4", "0", "<= 4", "reversed 16 rows"]


@pytest.mark.parametrize(("asked", "marked"), [("true", True), ("{choice: [false, true]}", True), ("false", False)])
def test_plan_says_whether_trials_may_train_on_ood_rows(tiny_yaml, capsys, asked, marked):
    planted = "task.planted={markers: [x, z], rows: {select: 16, report: 8}, train_rows: 8}"
    method = f"method={{kind: srnets, ood_rows: {asked}}}"
    main_ended(["plan", str(tiny_yaml), planted, method, "search.warm_starts=[]"])
    assert ("it is marked uses_ood_information" in capsys.readouterr().out) == marked


def test_out_of_reach_of_the_hub_a_plan_says_what_it_could_not_count(tiny_yaml, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    main_ended(["plan", str(tiny_yaml), "task.source=nobody/nothing", "task.rows.train=null"])
    printed = capsys.readouterr().out
    assert "Stored results are not counted" in printed
    assert "Not checked: 'nobody/nothing' is neither a local file" in printed
    assert "8 passes over all training rows" in printed  # 8 epochs of retraining
    assert "<= 2 passes over all training rows" in printed  # 1 epoch of FreeLB with 2 steps
    main_ended(["plan", str(tiny_yaml), "model.source=nobody/nothing"])
    printed = capsys.readouterr().out
    assert "model.source 'nobody/nothing' is neither" in printed
    assert "64 passes of 16 rows" in printed  # the 128 training rows were seen


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_every_shipped_yaml_is_valid_planned_and_opens_with_its_command(path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main_ended(["validate", str(path)])
    main_ended(["plan", str(path)])
    printed = capsys.readouterr().out
    assert "is valid" in printed
    assert "retrain" in printed
    assert f"python scripts/tune.py {path.relative_to(ROOT)}" in path.read_text(encoding="utf-8")
    of_the_hub = path.parent.name == "paper" or path.name == "srnets-hans.yaml"
    assert ("Not checked" in printed) == of_the_hub, "only the papers' files and data need the hub"
    assert list(tmp_path.iterdir()) == [], "plan must write nothing"


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_every_command_in_the_header_of_a_shipped_yaml_fits_it(path):
    header = path.read_text(encoding="utf-8").split("\nname:")[0].replace("\\\n#", "")
    commands = re.findall(r"python scripts/tune\.py (\S+)([^;#\n]*)", header)
    assert len(commands) >= 3
    assert all(re.search(rf"^# +{where} +python", header, re.MULTILINE) for where in ("laptop", "one GPU", "cluster"))
    assert {name for name, _ in commands[:3]} == {str(path.relative_to(ROOT))}
    for name, overrides in commands:
        warm_starts(load_experiment(ROOT / name, shlex.split(overrides.replace("$seed", "1"))))


def test_the_schema_file_for_editors_is_up_to_date():
    shipped = json.loads((ROOT / "search_spaces" / "experiment.schema.json").read_text(encoding="utf-8"))
    assert shipped == json_schema(), "run: tune-tickets schema > search_spaces/experiment.schema.json"


def test_the_script_is_a_front_of_the_same_code():
    command = [sys.executable, str(ROOT / "scripts" / "tune.py"), "absent.yaml"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("Error: absent.yaml: no such file")


def main_ended(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
