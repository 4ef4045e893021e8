"""The metric table: one row per metric. Objective, MLflow, tables, report, confirm and compare all read it.

A metric from outside the package is one call of `register` in a module that TUNE_TICKETS_METRICS names:

    from tune_tickets.results.metrics import Metric, register

    register(Metric("robust_gap", lambda model: ..., better="lower", objective=True, column="Gap%"))
"""

import importlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from tune_tickets.errors import ConfigError

METRICS_VARIABLE = "TUNE_TICKETS_METRICS"
"""Modules that register metrics, separated by commas. Every process of a search imports them."""
CUT = "sparsity/"
"""How the names of the shares of heads, neurons and weights that were cut begin."""
_THREAT, _TWIN = "<threat>", "<twin>"
# The name of a threat model may hold a slash (textfooler/cf8), that of a twin may not.
_PLACES = {_THREAT: ".+", _TWIN: "[^/]+", "<group>": ".+", "<constraint>": ".+"}


@dataclass(frozen=True)
class Metric:
    """One row of the table.

    Attributes:
        name: The key in MLflow and in the summary. `<threat>` or `<twin>` make it a family, such as `aua/<threat>`.
        read: Returns the value, or None if it was not measured. It gets the `Outcome`; in a family it gets the
            `AttackFigures` or `OodFigures` of one member. A name that ends with a second place, such as
            `ood/<twin>/<group>`, returns a mapping with a value per group.
        better: Whether higher or lower values are better; None if neither is.
        unit: `%` for percentages and points, otherwise empty or a word.
        objective: Whether an objective or a constraint may name it. Such a metric is in % and has a direction.
        epoch: Whether it needs only `clean` and `attacks`, so that it is also read after every epoch.
        before_attack: Whether it is final before the first attack begins.
        over_tasks: Whether its mean over the tasks of `transfer` is a metric too (`mean/<name>`).
        headline: Whether it belongs on the one line that is printed for a finished trial.
        confirmed: Whether `confirm` estimates and tests it over seeds.
        column: Its header in the closing table, the report and compare; empty for no column.
        group: Whether its column is with the accuracies (`own`) or with the sizes (`size`).
        digits: Digits behind the decimal point.
        interval: How the column shows the values of `low/<name>` and `high/<name>`.
        said: Its name in a sentence, such as "under attack"; empty if sentences leave it out.
        axis: Its name on an axis of a picture, with its unit; empty for `name`.
    """

    name: str
    read: Callable[[Any], float | Mapping[str, float] | None]
    better: Literal["higher", "lower"] | None = None
    unit: str = "%"
    objective: bool = False
    epoch: bool = False
    before_attack: bool = False
    over_tasks: bool = False
    headline: bool = False
    confirmed: bool = False
    column: str = ""
    group: Literal["own", "size"] = "own"
    digits: int = 1
    interval: Literal["half", "range"] | None = None
    said: str = ""
    axis: str = ""

    @property
    def family(self) -> str:
        """The place in its name whose members it is read for: `<threat>`, `<twin>`, or empty."""
        return next((place for place in (_THREAT, _TWIN) if place in self.name), "")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split("(<[a-z]+>)", self.name)
        return re.compile("".join(f"({_PLACES[part]})" if part in _PLACES else re.escape(part) for part in parts))

    def names(self, name: str) -> bool:
        """Whether `name` is this metric or a member of this family."""
        return self._pattern.fullmatch(name) is not None

    def member(self, name: str) -> str:
        """The threat model or twin in the name of a member of this family; empty for other metrics."""
        found = self._pattern.fullmatch(name)
        return found[1] if found is not None and self.family else ""

    def values(self, source: object, member: str = "") -> Iterator[tuple[str, float]]:
        """The names and values that it reads from `source`, the figures of `member` in a family."""
        found = self.read(source)
        name = self.name.replace(self.family, member) if self.family else self.name
        if isinstance(found, Mapping):
            stem = name.rsplit("<", 1)[0]
            yield from ((f"{stem}{key}", value) for key, value in found.items())
        elif found is not None:
            yield name, found


_TABLE: list[Metric] = []
_loaded: set[str] = set()


def register(metric: Metric) -> None:
    """Add a row to the table.

    Args:
        metric: The row. Call this in a module that `TUNE_TICKETS_METRICS` names, so that all workers know it.

    Raises:
        ConfigError: If the name is taken, or if an objective could not use the metric although it says so.

    Example:
        >>> register(Metric("skipped_total", lambda model: float(sum(each.skipped for each in model.attacks)), unit=""))
    """
    if any(row.name == metric.name for row in _TABLE):
        raise ConfigError(f"the metric {metric.name!r} is registered already: choose another name")
    if metric.objective and (metric.better is None or metric.unit != "%"):
        raise ConfigError(
            f"the metric {metric.name!r} cannot be an objective: that needs a direction (better) and values in percent"
        )
    _TABLE.append(metric)


def table() -> tuple[Metric, ...]:
    """Return all rows: those of the package, then those of the modules in TUNE_TICKETS_METRICS."""
    for name in filter(None, map(str.strip, os.environ.get(METRICS_VARIABLE, "").split(","))):
        if name not in _loaded:
            _loaded.add(name)  # before the import: the module may look at the table itself
            try:
                importlib.import_module(name)
            except ImportError as error:
                _loaded.discard(name)
                raise ConfigError(
                    f"{METRICS_VARIABLE} names {name!r}, which cannot be imported: {error}. Install the module on "
                    "every machine of the search, or correct the variable"
                ) from error
    return tuple(_TABLE)


def find(name: str) -> Metric | None:
    """Return the row of a metric by its name in the summary; None if it has none.

    A metric of a further task (`transfer/<task>/clean`) and a mean over tasks (`mean/clean`) have the row of `clean`.
    """
    bare = re.sub("^(transfer/[^/]+|mean)/", "", name)
    return next((row for row in table() if row.names(bare)), None)


def columns_of(family: str = "", suite: bool = False) -> list[Metric]:
    """The rows with a column in tables.

    Args:
        family: Empty for those of a whole model, or those of each attack (`<threat>`) or of each twin (`<twin>`).
        suite: Whether the attacks are a suite: then the accuracy is that after an attack, not under it alone.
    """
    hidden = _ATTACKED if suite else _AFTER
    return [row for row in table() if row.column and row.family == family and row is not hidden]


def label(name: str) -> str:
    """The name of a metric on an axis of a picture, with its unit, such as `clean accuracy, %`."""
    row = next((row for row in table() if row.axis and row.names(name)), None)
    return name if row is None else row.axis.replace(row.family or "<>", row.member(name))


def member(name: str) -> str:
    """The threat model or OOD twin in the name of a metric, such as `hans` in `ood/hans`; empty if there is none."""
    row = next((row for row in table() if row.names(name)), None)
    return "" if row is None else row.member(name)


def attacks_in(names: Iterable[str]) -> list[str]:
    """The accuracies under single attacks among names of metrics, each once; that under a suite if there are none."""
    known = dict.fromkeys(names)
    return [name for name in known if _ATTACKED.names(name)] or [name for name in known if name == _AUA]


def twins_in(names: Iterable[str]) -> list[str]:
    """The accuracies on OOD twins among names of metrics, each once; those of groups are left out."""
    return [name for name in dict.fromkeys(names) if _SHIFTED.names(name)]


def attack_bounds(accuracies: Mapping[str, float], suite: bool = False) -> dict[str, float]:
    """The best values that metrics can still reach, given the best accuracy under each attack, by threat model.

    Args:
        accuracies: In %, by threat model; in a suite, after it and all those before.
        suite: Whether the threat models are a suite.
    """
    name = (_AFTER if suite else _ATTACKED).name
    single = {name.replace(_THREAT, threat): value for threat, value in accuracies.items()}
    values = list(single.values())
    return {**single, _AUA: values[-1] if suite else sum(values) / len(values)}


def lower_is_better(name: str) -> bool:
    """Whether lower values of a metric are better."""
    row = find(name)
    return row is not None and row.better == "lower"


def headline(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics for one line: clean accuracy, accuracy under each attack and on each OOD twin."""
    rows = [row for row in table() if row.headline or row.name in attacks_in(metrics)]
    return {name: value for name, value in metrics.items() if any(row.names(name) for row in rows)}


def is_confirmed(name: str) -> bool:
    """Whether a confirmation estimates the metric over seeds. Metrics of further tasks are left out."""
    return any(row.confirmed and row.names(name) for row in table())


def outcome_values(outcome: Any) -> dict[str, float]:  # noqa: ANN401 - an Outcome; records import this module
    """Return all metrics of an `Outcome` as one flat mapping, those of further tasks last."""
    flat = dict(_read(table(), outcome, outcome.attacks, outcome.ood))
    found = {transfer.name: outcome_values(transfer.outcome) for transfer in outcome.transfers}
    further = {f"transfer/{task}/{name}": value for task, each in found.items() for name, value in each.items()}
    for row in table() if found else ():
        values = [each[row.name] for each in (flat, *found.values()) if row.over_tasks and row.name in each]
        further |= {f"mean/{row.name}": sum(values) / len(values)} if values else {}
    return flat | further


def epoch_values(figures: Any) -> dict[str, float]:  # noqa: ANN401 - an EpochFigures; records import this module
    """Return the metrics that are known after every epoch."""
    return dict(_read([row for row in table() if row.epoch], figures, figures.attacks, ()))


def _read(
    rows: Iterable[Metric], model: object, attacks: Iterable[Any], twins: Iterable[Any]
) -> Iterator[tuple[str, float]]:
    """Neighbouring rows of one family are read member by member, so that the metrics of an attack stay together."""
    members = {_THREAT: [(each.threat, each) for each in attacks], _TWIN: [(each.name, each) for each in twins]}
    for family, group in groupby(rows, key=lambda row: row.family):
        together = list(group)
        for member, source in members.get(family, [("", model)]):
            for row in together:
                yield from row.values(source, member)


def objective_names(
    threats: Iterable[str], twins: Iterable[str], tasks: Iterable[str], suite: bool = False
) -> tuple[str, ...]:
    """Return the metrics that an objective may name, given the threat models, OOD twins and further tasks.

    A suite attacks all rows with its first threat model only, so it has no accuracy under each of them.
    """
    members, tasks = {_THREAT: tuple(threats), _TWIN: tuple(twins)}, tuple(tasks)
    own: list[str] = []
    stems = [row.name.split("/")[0] for row in table()]
    # As people read it: accuracies first, a mean before its members.
    order = sorted(table(), key=lambda row: (not row.confirmed, stems.index(row.name.split("/")[0]), row.family != ""))
    for row in order:
        if row is _ATTACKED and suite:
            continue
        if row.objective and not (row.name == "ood" and not members[_TWIN]):
            own += [row.name.replace(row.family, each) for each in members[row.family]] if row.family else [row.name]
    means = [f"mean/{row.name}" for row in table() if row.over_tasks and tasks]
    # Further tasks have no twins, and their tickets have the size of the main one.
    there = [name for name in own if name.split("/")[0] != "ood" and _differs_by_task(name)]
    return (*own, *means, *(f"transfer/{task}/{name}" for task in tasks for name in there))


def _differs_by_task(name: str) -> bool:
    row = find(name)
    return row is not None and row.group != "size"


def shown(row: Metric, source: object, plus_minus: str = "±") -> str | None:
    """Return the text of a table cell, with the interval; None if the metric was not measured."""
    value = row.read(source)
    if not isinstance(value, float | int):
        return None
    text = f"{value:.{row.digits}f}"
    ends = [each.read(source) for end in ("low", "high") for each in table() if each.name == f"{end}/{row.name}"]
    known = [float(end) for end in ends if isinstance(end, float | int)]
    if row.interval is None or len(known) < 2:
        return text
    low, high = known
    if row.interval == "half":
        return f"{text} {plus_minus}{(high - low) / 2:.{row.digits}f}"
    return f"{text} [{low:.{row.digits}f}-{high:.{row.digits}f}]"


def _attack(name: str, read: Callable[[Any], float | Mapping[str, float] | None], **further: Any) -> Metric:  # noqa: ANN401
    return Metric(f"{name}/{_THREAT}", read, **({"epoch": True} | further))


_HIGH: dict[str, Any] = {"better": "higher", "objective": True}
_SIZE: dict[str, Any] = {**_HIGH, "before_attack": True, "group": "size"}
_CLEAN: dict[str, Any] = {"said": "clean", "axis": "clean accuracy, %", "column": "Clean%", "interval": "half"}
_AUA = "aua"
_ATTACKED = _attack(
    _AUA,
    lambda attack: _alone(attack, attack.accuracy_under_attack),
    **_HIGH,
    headline=True,
    confirmed=True,
    column="Aua% [95%]",
    interval="range",
    axis=f"accuracy under {_THREAT}, %",
)
_AFTER = _attack(
    "aua_after",
    lambda attack: _in_suite(attack, attack.accuracy_under_attack),
    better="higher",
    column="Aua% [95%]",
    interval="range",
    axis=f"accuracy after {_THREAT}, %",
)
_SHIFTED = Metric(
    f"ood/{_TWIN}",
    lambda twin: twin.value,
    **_HIGH,
    headline=True,
    confirmed=True,
    interval="range",
    axis=f"{_TWIN} (OOD), %",
)


def _cut(column: str, parts: str, read: Callable[[Any], float]) -> Metric:
    return Metric(f"{CUT}{column}", read, **_SIZE, column=column, axis=f"{parts} cut, %")


# The order is that of the keys in the summary.
for _row in (
    Metric(
        "clean",
        lambda model: model.clean.accuracy,
        **_HIGH,
        **_CLEAN,
        epoch=True,
        before_attack=True,
        over_tasks=True,
        headline=True,
        confirmed=True,
    ),
    Metric("majority_share", lambda model: model.clean.majority_share, epoch=True),
    Metric("low/clean", lambda model: model.clean.interval[0], epoch=True),
    Metric("high/clean", lambda model: model.clean.interval[1], epoch=True),
    Metric("weighted_f1", lambda model: model.clean.weighted_f1, **_HIGH, epoch=True, column="F1%"),
    _ATTACKED,
    _attack("low/aua", lambda attack: _alone(attack, attack.interval[0])),
    _attack("high/aua", lambda attack: _alone(attack, attack.interval[1])),
    _AFTER,
    _attack("low/aua_after", lambda attack: _in_suite(attack, attack.interval[0])),
    _attack("high/aua_after", lambda attack: _in_suite(attack, attack.interval[1])),
    _attack("suc", lambda attack: attack.success_rate, better="lower", column="Suc%"),
    _attack("queries", lambda attack: attack.queries, better="higher", unit="queries", column="#Query"),
    _attack("words_changed", lambda attack: attack.words_changed),
    _attack("skipped", lambda attack: float(attack.skipped), unit="rows"),
    _attack("similarity", lambda attack: attack.similarity, unit=""),
    _attack("masked_lm_top1", lambda attack: None if attack.masked_lm is None else attack.masked_lm.top1),
    _attack("masked_lm_top10", lambda attack: None if attack.masked_lm is None else attack.masked_lm.top10),
    _attack("candidates", lambda attack: float(attack.candidates) if attack.candidates else None, unit="texts"),
    Metric(f"rejected/{_THREAT}/<constraint>", lambda attack: attack.rejected, epoch=True),
    Metric(
        _AUA,
        lambda model: aua_of(model),
        **_HIGH,
        epoch=True,
        over_tasks=True,
        confirmed=True,
        interval="range",
        said="under attack",
        axis="accuracy under attack, %",
    ),
    Metric("low/aua", lambda model: None if model.suite is None else model.suite.interval[0], epoch=True),
    Metric("high/aua", lambda model: None if model.suite is None else model.suite.interval[1], epoch=True),
    _SHIFTED,
    Metric(f"low/ood/{_TWIN}", lambda twin: twin.interval[0]),
    Metric(f"high/ood/{_TWIN}", lambda twin: twin.interval[1]),
    Metric(f"ood/{_TWIN}/<group>", lambda twin: twin.groups, better="higher", confirmed=True),
    Metric("ood", lambda model: _mean([twin.value for twin in model.ood]), **_HIGH, confirmed=True, said="OOD"),
    Metric("sparsity", lambda model: model.sparsity.overall, **_SIZE, said="cut", axis="parameters cut, %"),
    _cut("heads", "attention heads", lambda model: model.sparsity.heads),
    _cut("neurons", "intermediate neurons", lambda model: model.sparsity.neurons),
    _cut("weights", "single weights", lambda model: model.sparsity.weights),
    Metric("parameters", lambda model: float(model.sparsity.parameters), unit="", group="size"),
    Metric("flops", lambda model: model.flops, **(_SIZE | {"better": "lower"})),
):
    register(_row)


def aua_of(model: Any) -> float | None:  # noqa: ANN401 - an Outcome or EpochFigures; records import this module
    """Return the accuracy under the suite, or else the mean over single attacks; None without attacks."""
    if model.suite is not None:
        return float(model.suite.accuracy)
    return _mean([attack.accuracy_under_attack for attack in model.attacks])


def _alone(attack: Any, value: float) -> float | None:  # noqa: ANN401 - AttackFigures
    """None in a suite, where the rows that lost to earlier threat models are not attacked."""
    return value if attack.after is None else None


def _in_suite(attack: Any, value: float) -> float | None:  # noqa: ANN401 - AttackFigures
    return None if attack.after is None else value


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
