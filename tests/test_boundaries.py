"""The walls of the house: which room may import which, and which library is imported in one room only."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tune_tickets"
OPEN = {"config", "errors", "records"}
"""Schemas, errors and result records are plain data: any room may import them."""
MAY_IMPORT = {
    "config": set(),
    "records": set(),
    "space": set(),
    "tickets": set(),
    "models": {"tickets"},
    "data": set(),
    "training": {"models", "tickets"},
    "methods": {"tickets", "training", "models", "data"},
    "attacks": {"models", "data"},
    "evaluation": {"attacks", "data", "models", "training"},
    "objective": set(),
    "tracking": set(),
    "reporting": {"evaluation"},
    # What an export holds (models, tickets) and what its card tells of the search (report).
    "export": {"models", "tickets", "reporting"},
    "trial": {"space", "methods", "tickets", "training", "models", "data", "attacks", "evaluation", "objective"},
    "tuning": {"space", "trial", "tickets", "models", "data", "attacks", "objective", "tracking", "reporting"},
    # What notebooks call; verbs share with it what is more than reading arguments and printing.
    "api": {"space", "tuning", "reporting", "evaluation", "models", "attacks", "data"},
    # The verbs attack, predict and fetch stand right in front of attacks, evaluation and models.
    "cli": {
        *(
            "api",
            "space",
            "tuning",
            "trial",
            "reporting",
            "evaluation",
            "models",
            "attacks",
            "data",
            "tracking",
            "export",
        )
    },
}
ONLY_IN = {"textattack": {"attacks"}, "mlflow": {"tracking"}, "ray": {"trial", "tuning"}, "optuna": {"tuning"}}
ONLY_IN |= {"onnx": {"export"}, "onnxruntime": {"export"}}


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_the_design_allows(room):
    allowed = MAY_IMPORT[room] | OPEN | {room}
    for file in (PACKAGE / room).rglob("*.py"):
        ours = {name.split(".")[1] for name in imports(file) if name.startswith("tune_tickets.")}
        assert ours & set(MAY_IMPORT) <= allowed, f"{file.name} reaches into {sorted(ours - allowed)}"


def test_every_room_is_in_the_plan():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(MAY_IMPORT)


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_behind_a_wall_stays_behind_it(library):
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0]
        if room not in ONLY_IN[library]:
            assert not {name for name in imports(file) if name.split(".")[0] == library}, file


def test_no_file_is_named_after_nothing_and_none_is_longer_than_a_chapter():
    for file in PACKAGE.rglob("*.py"):
        assert file.stem not in {"utils", "helpers", "common", "misc"}
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 400, file
