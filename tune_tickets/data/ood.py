"""Out-of-distribution twins of a task: read them, match their labels with the task's, split them by label and group."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from tune_tickets.config.task import REVERSED, Planted, Task, Twin, TwinTrain
from tune_tickets.data.files import Table, read_source
from tune_tickets.data.rows import Example, examples, label_names, label_words
from tune_tickets.data.splits import in_order, take, text_key, unique, without
from tune_tickets.errors import DataError


@dataclass(frozen=True)
class TwinExample(Example):
    """A row of a twin. `label` is an index into the twin's label names. Each group also gets its own metric."""

    group: str | None = None


@dataclass(frozen=True)
class TwinData:
    """Two disjoint splits of a twin, and how the answers of a model of the task are counted on it."""

    name: str
    select: tuple[TwinExample, ...]
    report: tuple[TwinExample, ...]
    labels: tuple[str, ...]
    answers: tuple[int | None, ...]
    """For each label of the task, the label of the twin that it counts as, or None."""
    metric: Literal["accuracy", "weighted_f1"]
    restrict: bool
    """Whether the model's answer is chosen only among the labels of the twin."""

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of what a search sees of the twin: label names and select rows."""
        digest = hashlib.sha256(json.dumps(self.labels).encode())
        for row in self.select:
            digest.update(json.dumps([row.texts, row.label, row.group]).encode() + b"\n")
        return digest.hexdigest()


def load_twin(twin: Twin, task: Task, names: Sequence[str], seed: int) -> TwinData:
    """Read, check and split a twin of a task whose labels are `names`.

    Raises:
        DataError: the rows cannot be read or are too few, or the labels do not match.
    """
    try:
        return _load(twin, task, names, seed)
    except DataError as error:
        raise DataError(f"task.ood, {twin.name}: {error}") from None


def load_train_rows(
    twin: Twin, train: TwinTrain, task: Task, names: Sequence[str], held: Iterable[Example], seed: int
) -> tuple[Example, ...]:
    """Return the training rows of a twin under the task's labels, each `copies` times.

    Rows with the text of a row in `held` are left out.

    Raises:
        DataError: the rows cannot be read or are too few, or a label is not one of the task's.
    """
    try:
        return _load_train_rows(twin, train, task, names, held, seed)
    except DataError as error:
        raise DataError(f"task.ood, {twin.name}, train: {error}") from None


def _load_train_rows(
    twin: Twin, train: TwinTrain, task: Task, names: Sequence[str], held: Iterable[Example], seed: int
) -> tuple[Example, ...]:
    source = train.source or twin.source
    subset = train.subset if train.source else train.subset or twin.subset
    rows, labels = _rows(_read(source, subset, train.split), twin, task)
    numbers = _trained_as(labels, train.labels, names, source)
    found = in_order(without(rows, held), seed, "ood")
    if train.rows is not None and train.rows > len(found):
        raise DataError(f"rows is {train.rows}, but only {len(found)} rows of {source} can be used. Lower it.")
    kept = found if train.rows is None else take(found, (train.rows,))[0]
    return tuple(Example(row.texts, numbers[row.label]) for row in kept) * train.copies


def _split_twin(rows: Sequence[TwinExample], report: int, select: int, seed: int) -> list[tuple[TwinExample, ...]]:
    """Return report and select rows, stratified by label and group."""
    strata = sorted({(row.label, row.group or "") for row in rows})
    known = {text_key(row): row for row in rows}
    marked = [Example(row.texts, strata.index((row.label, row.group or ""))) for row in rows]
    groups = take(in_order(marked, seed), (report, select))[:2]
    return [tuple(known[text_key(row)] for row in group) for group in groups]


def _load(twin: Twin, task: Task, names: Sequence[str], seed: int) -> TwinData:
    table = _read(twin.source, twin.subset, twin.split)
    rows, labels = _rows(table, twin, task)
    wanted = twin.rows.report + twin.rows.select
    if wanted > len(rows):
        raise DataError(
            f"{table.name}: rows asks for {twin.rows.report} report + {twin.rows.select} select = {wanted} rows, but "
            f"only {len(rows)} can be used. Lower task.ood's rows."
        )
    classes = _classes(names, twin.merge, labels)
    lacking = [label for index, label in enumerate(labels) if index not in classes.values()]
    if lacking:
        raise DataError(
            f"no label of the task ({', '.join(map(repr, names))}) counts as {', '.join(map(repr, lacking))} of "
            f"{table.name}. Set merge to say which label counts as it, or rename labels with labels."
        )
    _check_merge(twin, names, labels)
    report, select = _split_twin(rows, twin.rows.report, twin.rows.select, seed)
    answers = tuple(classes[name] for name in names)
    return TwinData(twin.name, select, report, labels, answers, twin.metric, twin.restrict)


def _read(source: str, subset: str | None, split: str) -> Table:
    return read_source(Task(source=source, subset=subset, train_split=split))


def _rows(table: Table, twin: Twin, task: Task) -> tuple[list[TwinExample], tuple[str, ...]]:
    """Return the rows without duplicates, and the label names that their numbers refer to."""
    words = label_words(table, twin.label)
    renamed = [word if word is None else twin.labels.get(word, word) for word in words]
    table = replace(table, columns={**table.columns, twin.label: renamed}, class_names={})
    text = twin.text or task.text
    reading = Task(source=table.name, text=text, label=twin.label, attacked=text if isinstance(text, str) else text[0])
    labels = label_names(table, reading)
    kept = unique(examples(table, reading, labels)[0]).rows
    groups = _groups(table, reading, twin.group)
    return [TwinExample(row.texts, row.label, groups.get(row.texts)) for row in kept], labels


def _groups(table: Table, reading: Task, group: str | None) -> dict[tuple[object, ...], str]:
    if group is None:
        return {}
    texts = zip(*(table.column(column) for column in reading.columns), strict=True)
    return {tuple(row): str(value) for row, value in zip(texts, table.column(group), strict=True)}


def _check_merge(twin: Twin, names: Sequence[str], labels: Sequence[str]) -> None:
    """Raise if merge names a label that does not exist: a misspelled one would count correct answers as wrong."""
    # A preset names the answers of its own task. A task that lacks some of them needs no merge for these.
    unknown = [] if twin.preset else [answer for answer in twin.merge if answer not in names]
    known = {label.casefold() for label in labels}
    unknown += [label for answer, label in twin.merge.items() if answer in names and label.casefold() not in known]
    if unknown:
        raise DataError(
            f"merge names {', '.join(map(repr, unknown))}, but models answer with {', '.join(map(repr, names))}, and "
            f"the twin's labels are {', '.join(map(repr, labels))}. Write {{label of the task: label of the twin}}."
        )


def _classes(ours: Sequence[str], renamed: Mapping[str, str], theirs: Sequence[str]) -> dict[str, int | None]:
    """Map each of our labels to the number of theirs: by `renamed`, else by name without regard to case."""
    numbers = {label.casefold(): index for index, label in enumerate(theirs)}
    return {label: numbers.get(renamed.get(label, label).casefold()) for label in ours}


def _trained_as(labels: Sequence[str], renamed: Mapping[str, str], names: Sequence[str], where: str) -> list[int]:
    """Return, for each label of a twin, the class of the task under which it is trained."""
    numbers = []
    for label, number in _classes(labels, renamed, names).items():
        if number is None:
            raise DataError(
                f"{where}: the label {label!r} is not one of the task's ({', '.join(map(repr, names))}). "
                "Map it to one of them in train.labels."
            )
        numbers.append(number)
    return numbers


_AGREEING, _MISLEADING = "agreeing", "misleading"
"""The groups of the reversed twin: rows with the marker of their own label, and rows with another one."""


def check_markers(planted: Planted, names: Sequence[str]) -> None:
    """Raise a DataError unless every label has a marker."""
    if len(planted.markers) != len(names):
        raise DataError(
            f"task.planted.markers names {len(planted.markers)} markers, but the labels are "
            f"{', '.join(map(repr, names))}: write one marker per label, in this order."
        )


def plant(rows: Sequence[Example], markers: Sequence[str], share: float, seed: int) -> tuple[Example, ...]:
    """Put a marker before the text of each row. The order of the rows stays.

    For every label, round(share x rows) rows get the marker of their own label; seed and text decide which ones.
    The other rows get the markers of the other labels in turn.
    """
    marks: dict[Example, str] = {}
    for label in sorted({row.label for row in rows}):
        same = in_order((row for row in rows if row.label == label), seed, "planted")
        agreeing = round(share * len(same))
        others = [marker for index, marker in enumerate(markers) if index != label]
        for index, row in enumerate(same):
            marks[row] = markers[label] if index < agreeing else others[(index - agreeing) % len(others)]
    return tuple(replace(row, texts=(f"{marks[row]} {row.texts[0]}", *row.texts[1:])) for row in rows)


def marker_of(row: Example, markers: Sequence[str]) -> int | None:
    """Return the number of the marker that the row starts with, or None."""
    first = row.texts[0].split(maxsplit=1)[:1]
    return markers.index(first[0]) if first and first[0] in markers else None


def reversed_twin(
    rows: Sequence[Example], planted: Planted, names: tuple[str, ...], seed: int
) -> tuple[TwinData, tuple[Example, ...]]:
    """Make the OOD twin of a planted task from rows that are in no other split.

    Returns:
        The twin, and `planted.train_rows` further rows of its kind to train on.
    """
    trained, measured = take(rows, (planted.train_rows,))
    report, select = _split_twin(
        [TwinExample(row.texts, row.label) for row in measured], planted.rows.report, planted.rows.select, seed
    )
    twin = TwinData(
        name=REVERSED,
        select=_grouped(plant(select, planted.markers, planted.ood_strength, seed), planted.markers),
        report=_grouped(plant(report, planted.markers, planted.ood_strength, seed), planted.markers),
        labels=names,
        answers=tuple(range(len(names))),
        metric="accuracy",
        restrict=False,
    )
    return twin, plant(trained, planted.markers, planted.ood_strength, seed)


def _grouped(rows: Sequence[Example], markers: Sequence[str]) -> tuple[TwinExample, ...]:
    groups = (_AGREEING if marker_of(row, markers) == row.label else _MISLEADING for row in rows)
    return tuple(TwinExample(row.texts, row.label, group) for row, group in zip(rows, groups, strict=True))
