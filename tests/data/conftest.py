"""Files of labelled texts, written again for every test."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Rows = Sequence[Sequence[object]]


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., str]:
    """Write rows under a header to a csv in tmp_path and return its path."""

    def write(rows: Rows, header: Sequence[str] = ("text", "label"), name: str = "rows.csv") -> str:
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([header, *rows])
        return str(path)

    return write


@pytest.fixture
def reviews() -> list[tuple[str, str]]:
    """100 rows: 60 good, 40 bad."""
    return [(f"review number {i} of a film", "good" if i % 5 < 3 else "bad") for i in range(100)]
