#!/usr/bin/env bash
# Run all checks of the gate, in this order. VENV names the virtual environment; the default is .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }
# Two processes, each with whole files in their order. While a small search starts and ends, it uses only one core.
side_by_side() { "$bin/python" -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder "$@"; }

step "ruff";              "$bin/ruff" check . && "$bin/ruff" format --check .
step "mypy --strict";     "$bin/mypy"
step "unit tests";        side_by_side -m "not integration and not slow"
step "integration tests"; side_by_side -m "integration and not slow" --durations=10
step "done"
