#!/usr/bin/env bash
# Everything the gate checks, in its order. Uses the virtual environment .venv, or the one named by VENV.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

step "ruff";              "$bin/ruff" check . && "$bin/ruff" format --check .
step "mypy --strict";     "$bin/mypy"
step "unit tests";        "$bin/python" -m pytest -q -m "not integration and not slow"
step "integration tests"; "$bin/python" -m pytest -q -m "integration and not slow" --durations=10
step "done"
