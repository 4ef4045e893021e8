"""Keeping the driver's objects out of Ray Tune's pickles: a search is rebuilt from its storage, never from those."""

from typing import Any


class Unpickled:
    """Tune pickles and copies what it is given. Ours hold databases and locks, and exist once."""

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (f"a {type(self).__name__} that lived in the driver",)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Unpickled":
        return self
