"""Rows as they were read, before anything is checked; every reader of this folder returns a `Table`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tune_tickets.errors import DataError


@dataclass(frozen=True)
class Table:
    """Columns of equal length, and what an error message needs to point at a row."""

    name: str
    columns: Mapping[str, Sequence[object]]
    lines: Sequence[int] | None = None
    """Line of each row in its text file; None where rows are only counted."""
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that hold class numbers, and the names of the classes."""
    published: bool = False
    """True for data sets of others: rows without text or label are left out instead of being an error."""

    def __len__(self) -> int:
        return max((len(values) for values in self.columns.values()), default=0)

    def column(self, name: str) -> Sequence[object]:
        """All values of a column; a DataError that lists the columns present if there is none of that name."""
        if name not in self.columns:
            present = ", ".join(map(repr, self.columns)) or "none"
            raise DataError(
                f"{self.name} has no column {name!r}; the columns present are {present}. "
                "Correct the setting that names it, or rename the column."
            )
        return self.columns[name][:]  # a hub column is read from disk here, all at once

    def where(self, row: int) -> str:
        """The place of a row, counted from 0, in words."""
        if self.lines is not None:
            return f"{self.name}, line {self.lines[row]}"
        return f"{self.name}, row {row + 1}"
