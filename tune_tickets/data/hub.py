"""Data sets of the hub, or local folders laid out like one, through the package datasets."""

from typing import Any

from tune_tickets.data.table import Table
from tune_tickets.errors import DataError, ResourceError, Unreachable


def read_hub(source: str, subset: str | None, split: str) -> Table:
    """One split of a hub data set; columns stay on disk until they are asked for."""
    name = f"{source}{f' ({subset})' if subset else ''}, split {split!r}"
    data = _load(source, subset, split, name)
    class_names = {
        column: tuple(feature.names) for column, feature in data.features.items() if hasattr(feature, "names")
    }
    columns = {column: data[column] for column in data.column_names}
    return Table(name, columns, class_names=class_names, published=True)


def _load(source: str, subset: str | None, split: str, name: str) -> Any:  # noqa: ANN401 - datasets is untyped
    import datasets

    try:
        return datasets.load_dataset(source, subset, split=split)
    except (ConnectionError, FileNotFoundError) as error:
        kind = Unreachable if isinstance(error, ConnectionError) else ResourceError
        raise kind(
            f"{source!r} is neither a file here nor a data set that could be fetched ({_first_line(error)}). Check the "
            "spelling and the network, or download it where there is a network and name the local file in task.source; "
            "'bundled/rotten-tomatoes' and 'bundled/imdb' need no network."
        ) from None
    except (ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        cause = error.__cause__ or error
        raise DataError(
            f"{name}: the data set cannot be loaded ({_first_line(cause)}). Check task.subset, task.train_split and "
            "task.held_out, or download it and name a local file in task.source."
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
