"""A disk that runs full in the middle of a search: whatever raised, the driver says so and how to go on."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tune_tickets.errors import SearchStopped, TicketsError
from tune_tickets.tuning.results import Results

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SQLITE = "disk is full"
"""What SQLite says, under the names that Optuna, SQLAlchemy and MLflow give to it."""


@contextmanager
def naming_a_full_disk(results: Results) -> Iterator[None]:
    """Turn the errors of a full disk into one that says what to do; all others are left as they are."""
    try:
        yield
    except TicketsError:
        raise
    except Exception as error:
        found = next((each for each in _chain(error) if _of_a_full_disk(each)), None)
        if found is None:
            raise
        place = getattr(found, "filename", None) or results.folder
        raise SearchStopped(
            f"the disk is full ({place}). What was finished is kept. Make room ('tune-tickets store prune "
            f"{results.folder}' says what may go) and go on with: tune-tickets resume {results.folder} --retry-errors"
        ) from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _of_a_full_disk(error: BaseException) -> bool:
    return (isinstance(error, OSError) and error.errno in _FULL) or _SQLITE in str(error)
