"""The verdict of a search: ship the ticket, keep the dense model, or search on. The rules are in docs/objectives.md."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tune_tickets.config.objective import Objective
from tune_tickets.results.metrics import lower_is_better
from tune_tickets.results.objective import ranked
from tune_tickets.results.records import AttackFigures, ControlRecord, Outcome, TrialRecord, Verdict
from tune_tickets.results.statistics import ALPHA, detectable_paired, divided, holm, mcnemar, p_text, rows_to_show

MOST_ROWS = 5000
"""A difference that needs more attacked rows than this is too small to be worth them."""
_NOT_COMPARED = ("clean", "aua", "sparsity", "flops")
"""Metrics of the objective that are compared in another way (clean and attacked rows), or that are sizes."""

Rows = tuple[bool, ...]


def judge_search(trials: Sequence[TrialRecord], controls: Sequence[ControlRecord], objective: Objective) -> Verdict:
    """Return the verdict on the trials of a search.

    Args:
        trials: All trials. The feasible one of the first rank is judged, else the one closest to being feasible.
        controls: The dense control and random tickets. The p-value is corrected for the comparisons with all of them.
        objective: Its floor says how much clean accuracy a ticket may lose.
    """
    complete = [trial for trial in trials if trial.status == "complete" and trial.outcome is not None]
    if not complete:
        return _undecided(None, "no trial was measured completely: look at the errors of the trials, then resume")
    able = [trial for trial in ranked(list(trials)) if trial.outcome is not None]
    first = able[0] if able else max(complete, key=lambda trial: (sum(trial.values or (-math.inf,)), -trial.number))
    ours, dense = first.outcome, next((control.outcome for control in controls if control.kind == "dense"), None)
    assert ours is not None
    if dense is None:
        return _undecided(first.id, f"no dense model was measured to compare {first.id} with: set controls.dense=true")
    pair = compared_rows(ours, dense)
    case = None if pair is None else _Case(first.id, ours, dense, *pair, *_corrected(ours, controls))
    if not able:
        return _none_may_win(first.id, ours, dense, case, len(complete))
    if case is None:
        said = f"{first.id} and the dense model were not attacked on the same rows, so nothing shows which resists more"
        return _undecided(first.id, f"{said}: set evaluation.attacks")
    return _judge(case, objective, len(trials))


def compared_rows(ours: Outcome, theirs: Outcome) -> tuple[Rows, Rows] | None:
    """Return per row whether each of two models is right under every attack; None if they share no attacked rows.

    Only threat models and rows with which both were measured count.
    """
    one, other = getattr(ours, "suite", None), getattr(theirs, "suite", None)
    if one is not None and other is not None and one.survived:
        same = _sample(one) == _sample(other) and set(one.fingerprints) == set(other.fingerprints)
        return (tuple(one.survived), tuple(other.survived)) if same else None
    pairs = [
        (mine, other)
        for mine in ours.attacks
        for other in theirs.attacks
        if (mine.fingerprint, _sample(mine)) == (other.fingerprint, _sample(other)) and mine.survived
    ]
    shared = [pair for pair in pairs if _sample(pair[0]) == _sample(pairs[0][0])]
    return (_under_all([mine for mine, _ in shared]), _under_all([other for _, other in shared])) if shared else None


def _sample(figures: AttackFigures) -> tuple[str, int]:
    return getattr(figures, "sample", ""), len(figures.survived)


def _under_all(attacks: Sequence[AttackFigures]) -> Rows:
    return tuple(all(row) for row in zip(*(figures.survived for figures in attacks), strict=True))


def _corrected(ours: Outcome, controls: Sequence[ControlRecord]) -> tuple[float, int]:
    """The corrected p-value of the comparison with the dense control, and the number of comparisons.

    Random tickets that are like another trial are no controls of this one.
    """
    own = sorted((one for one in controls if one.like is None), key=lambda one: one.kind != "dense")
    pairs = [pair for control in own if (pair := compared_rows(ours, control.outcome)) is not None]
    return holm([mcnemar(*pair) for pair in pairs])[0], len(pairs)


@dataclass(frozen=True)
class _Case:
    """A ticket and the dense control on the same attacked rows."""

    trial: str
    ours: Outcome
    dense: Outcome
    survived: Rows
    dense_survived: Rows
    p_value: float
    comparisons: int

    @property
    def rows(self) -> int:
        return len(self.survived)

    @property
    def attacked(self) -> tuple[float, float]:
        """Accuracy under attack of both, in %."""
        return 100.0 * sum(self.survived) / self.rows, 100.0 * sum(self.dense_survived) / self.rows

    @property
    def difference(self) -> float:
        return self.attacked[0] - self.attacked[1]

    @property
    def level(self) -> float:
        """The level at which a test is certain to be significant after the correction."""
        return ALPHA / self.comparisons

    @property
    def figures(self) -> dict[str, float]:
        return {
            "rows": self.rows,
            "under_attack": self.attacked[0],
            "under_attack_dense": self.attacked[1],
            "difference": self.difference,
            "comparisons": self.comparisons,
            **_clean_and_cut(self.ours, self.dense),
        }

    def says(self, name: str) -> str:
        """Return the figures under attack in words."""
        one, other = self.attacked
        test = f"{self.difference:+z.1f} points, {p_text(self.p_value)}"
        return (
            f"under attack {name} is right on {one:.1f}% of {self.rows} rows, the dense model on {other:.1f}% ({test})"
        )


def _judge(case: _Case, objective: Objective, trials: int) -> Verdict:
    dominated = _is_dominated(case, objective)
    significant = case.p_value < ALPHA
    clean = _clean(case.ours, case.dense)
    if dominated or (significant and case.difference < 0):
        sentence = f"Keep the dense model: {case.says(case.trial)}; {clean}; {_cut(case.ours)}."
        return _verdict("keep_dense", sentence, case, dominated=dominated)
    lower = _clean_is_lower(case, objective)
    if significant and not lower:
        return _verdict("ship", f"Ship {case.trial}: {case.says('it')}; {clean}; {_cut(case.ours)}.", case)
    if significant:
        advice = f"set objective.floor_points, and try more trials (search.trials={2 * trials})"
        return _verdict("undecided", f"Search on: {case.says(case.trial)}, but {clean}; {advice}.", case)
    smallest = detectable_paired(case.survived, case.dense_survived, case.level)
    needed = _rows_needed(case)
    figures = {"detectable": smallest} | ({} if needed is None else {"rows_needed": needed})
    limit = f"{case.rows} rows show a difference of {smallest:.1f} points or more"
    if smallest >= 100.0 * (share := divided(case.survived, case.dense_survived)):
        limit = f"they differ on {round(share * case.rows)} rows, too few to show any difference"
    sentence = f"Search on: {case.says(case.trial)}; {clean}; {limit}, so {_advice(case, needed, trials)}."
    return _verdict("undecided", sentence, case, figures)


def _is_dominated(case: _Case, objective: Objective) -> bool:
    """Whether the dense model is at least as accurate in everything that the search compares, and better in one.

    Size does not count: a ticket that is smaller and less accurate is a trade, not a gain in robustness.
    """
    pairs = [(case.dense.clean.accuracy, case.ours.clean.accuracy), (case.attacked[1], case.attacked[0])]
    ours, dense = case.ours.metrics(), case.dense.metrics()
    for name in objective.valued:
        if name.partition("/")[0] not in _NOT_COMPARED and name in ours and name in dense:
            sign = -1.0 if lower_is_better(name) else 1.0
            pairs.append((sign * dense[name], sign * ours[name]))
    return all(one >= other for one, other in pairs) and any(one > other for one, other in pairs)


def _clean_is_lower(case: _Case, objective: Objective) -> bool:
    """Whether clean accuracy is shown to be lower by more than the floor (0 without one).

    By Newcombe's interval of a difference, from the two Wilson intervals: answers on clean rows are not kept.
    """
    ours, dense = case.ours.clean, case.dense.clean
    above, below = ours.interval[1] - ours.accuracy, dense.accuracy - dense.interval[0]
    return ours.accuracy - dense.accuracy + math.hypot(above, below) < -(objective.floor_points or 0.0)


def _rows_needed(case: _Case) -> int | None:
    """How many rows would settle the difference in the ticket's favour, to two digits; None if that is no way."""
    needed = rows_to_show(case.survived, case.dense_survived, case.level) if case.difference > 0 else None
    if needed is None or needed > MOST_ROWS:
        return None
    needed = max(needed, case.rows * 5 // 4 + 1)  # these rows were too few, whatever the approximation says
    step: int = 10 ** max(len(str(needed)) - 2, 0)
    return math.ceil(needed / step) * step


def _advice(case: _Case, needed: int | None, trials: int) -> str:
    more = f"try more trials (search.trials={2 * trials})"
    if needed is None:
        return more
    select = f" task.rows.select={needed}" if needed > case.ours.clean.rows else ""
    return f"attack about {needed:,} rows (evaluation.rows={needed}{select}) or {more}"


def _none_may_win(trial: str, ours: Outcome, dense: Outcome, case: _Case | None, complete: int) -> Verdict:
    which = f"none of the {complete} measured tickets meets" if complete > 1 else "the measured ticket does not meet"
    attacked = f"{case.says(f'{trial}, the nearest,' if complete > 1 else trial)}; " if case else ""
    sentence = f"Keep the dense model: {which} the conditions of the objective; {attacked}{_clean(ours, dense)}."
    if case is None:
        return Verdict(kind="keep_dense", sentence=sentence, trial=trial, figures=_clean_and_cut(ours, dense))
    return _verdict("keep_dense", sentence, case)


def _clean(ours: Outcome, dense: Outcome) -> str:
    return f"on clean text {ours.clean.accuracy:.1f}% against {dense.clean.accuracy:.1f}%"


def _cut(ours: Outcome) -> str:
    share = f"{ours.sparsity.overall:.0f}%"
    return "nothing is cut" if share == "0%" else f"{share} of the encoder's parameters are cut"


def _clean_and_cut(ours: Outcome, dense: Outcome) -> dict[str, float]:
    accuracies = {"clean": ours.clean.accuracy, "clean_dense": dense.clean.accuracy}
    return {**accuracies, "cut": ours.sparsity.overall}


def _verdict(
    kind: str, sentence: str, case: _Case, further: Mapping[str, float] | None = None, dominated: bool = False
) -> Verdict:
    return Verdict.model_validate(
        {
            "kind": kind,
            "sentence": sentence,
            "trial": case.trial,
            "dominated": dominated,
            "p_value": case.p_value,
            "figures": case.figures | dict(further or {}),
        }
    )


def _undecided(trial: str | None, reason: str) -> Verdict:
    return Verdict(kind="undecided", sentence=f"Search on: {reason}.", trial=trial)
