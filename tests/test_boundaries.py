"""Which folder may import which, and which library is imported in one folder only."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tune_tickets"
OPEN = {"config", "errors", "files", "offline"}
"""Any room may import schemas, errors and the atomic write."""
PARTS = {"tickets", "training", "models", "data", "attacks"}
MAY_IMPORT = {
    "config": set(),
    "results": set(),
    "tickets": set(),
    "models": {"tickets"},
    "data": set(),
    "training": {"models", "tickets", "results"},
    "attacks": {"models", "data", "results"},
    "engine": set(),
    "methods": PARTS | {"engine", "results"},
    "tracking": {"results"},
    "reports": PARTS | {"engine", "results", "methods", "tracking"},
    "export": {"models", "tickets", "results", "reports"},
    "search": PARTS | {"engine", "results", "methods", "tracking", "reports"},
    "api": PARTS | {"engine", "results", "methods", "search", "reports"},
    "cli": PARTS | {"engine", "results", "methods", "search", "reports", "tracking", "export", "api"},
}
ONLY_IN = {
    "textattack": {"attacks"},
    "mlflow": {"tracking"},
    "ray": {"engine", "search"},
    "optuna": {"search", "reports"},
    "onnx": {"export"},
    "onnxruntime": {"export"},
}


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rooms_used(room: str) -> set[str]:
    """The rooms that the files of a room import."""
    names = {name for file in (PACKAGE / room).rglob("*.py") for name in imports(file)}
    return {name.split(".")[1] for name in names if name.startswith("tune_tickets.")} & set(MAY_IMPORT) - {room}


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_the_design_allows(room):
    assert rooms_used(room) <= MAY_IMPORT[room] | OPEN


def test_the_engine_knows_no_configuration():
    names = {name for file in (PACKAGE / "engine").rglob("*.py") for name in imports(file)}
    assert not {name for name in names if name.startswith("tune_tickets.config")}


def test_the_rooms_form_no_circle():
    order = tuple(TopologicalSorter({room: rooms_used(room) for room in MAY_IMPORT}).static_order())
    assert set(order) == set(MAY_IMPORT)


def test_every_room_is_in_the_plan_and_none_is_crowded():
    rooms = {path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {room.name for room in rooms} == set(MAY_IMPORT)
    for folder in {file.parent for file in PACKAGE.rglob("*.py")} - {PACKAGE}:
        assert len([file for file in folder.glob("*.py") if file.stem != "__init__"]) <= 17, folder


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_behind_a_wall_stays_behind_it(library):
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0]
        if room not in ONLY_IN[library]:
            assert not {name for name in imports(file) if name.split(".")[0] == library}, file


def test_no_file_is_named_after_nothing_and_none_is_longer_than_a_chapter():
    for file in PACKAGE.rglob("*.py"):
        assert file.stem not in {"utils", "helpers", "common", "misc"}
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 500, file


MODEL_PARTS = re.compile(
    r"encoder\.layer\b|attention\.(self|output)\b|(output|intermediate|pooler)\.dense\b|\.LayerNorm\b|\b(position|token_type)_embeddings\b"
    r"|\blm_head\b|\bintermediate_act_fn\b|\b(num_attention_heads|all_head_size|intermediate_size)\b"
)
"""Attributes of transformers models and sizes in their configurations."""


def model_parts(source: str) -> set[str]:
    """The names of parts of models in code and in strings; comments and docstrings may speak of them."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    written = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    written += [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]
    return {text for text in written if MODEL_PARTS.search(text)}


def test_only_model_families_know_what_parts_of_models_are_called():
    found = {file: model_parts(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")}
    families = PACKAGE / "models" / "families"
    assert {file: names for file, names in found.items() if names and families not in file.parents} == {}
    assert found[families / "bert.py"]


@pytest.mark.parametrize(
    "code",
    ["base.encoder.layer[0]", "x = layer.attention.self.query", "getattr(model, 'lm_head')", "c.intermediate_size"],
)
def test_names_of_parts_are_seen(code):
    assert model_parts(code)
    assert not model_parts(f'"""{code}"""\n# {code}\n')
