"""The benches behind `scripts/bench.py`, one module each."""
