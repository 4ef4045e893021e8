"""Outcomes and summaries written out by hand."""

from tune_tickets.results.records import (
    AttackFigures,
    CleanFigures,
    Comparison,
    ControlRecord,
    Cost,
    CostBaseline,
    OodFigures,
    Outcome,
    Selection,
    Sparsity,
    Summary,
    Training,
    TrialRecord,
)

BOTH = ("textfooler/minilm", "textbugger/minilm")


def make_attack(
    threat="textfooler/minilm", fingerprint=None, aua=23.0, survived=(True, False, False, False), sample="rows"
):
    return AttackFigures(
        threat=threat,
        fingerprint=fingerprint or f"print-of-{threat}",
        rows=len(survived),
        clean=90.0,
        accuracy_under_attack=aua,
        interval=(15.8, 32.2),
        success_rate=74.5,
        queries=1023.4,
        words_changed=12.0,
        similarity=None,
        skipped=0,
        survived=tuple(survived),
        sample=sample,
    )


def make_twin(name="hans", right=(True, True, False, False), metric="accuracy", groups=None, sample="twin rows"):
    value = 100.0 * sum(right) / len(right)
    return OodFigures(
        name=name,
        metric=metric,
        value=value,
        interval=(value - 10.0, value + 10.0),
        rows=len(right),
        groups=groups or {},
        right=tuple(right),
        sample=sample,
    )


def make_outcome(clean=84.4, attacks=None, flags=(), sample="clean rows", ood=(), notes=()):
    interval = clean - 4.0, clean + 5.0
    return Outcome(
        clean=CleanFigures(rows=256, accuracy=clean, interval=interval, majority_share=55.0, sample=sample),
        attacks=tuple(make_attack(threat) for threat in BOTH) if attacks is None else tuple(attacks),
        sparsity=Sparsity(
            heads=16.7,
            neurons=30.0,
            weights=12.5,
            parameters=21_345_678,
            parameters_total=33_000_000,
            parameters_dense=26_000_000,
        ),
        flags=tuple(flags),
        ood=tuple(ood),
        notes=tuple(notes),
        retrain_digest="abc",
    )


def make_cost(retraining=(3.0, 20.0), search=(0.0, 0.0)):
    """Passes and seconds of both."""
    own, found = (Training(passes=passes, seconds=seconds) for passes, seconds in (retraining, search))
    return Cost(retraining=own, search=found)


BASELINES = (
    CostBaseline(adversary="pgd", trial="t3", steps=3, epochs=3, passes=12.0, seconds=80.0),
    CostBaseline(adversary="freelb", trial=None, steps=3, epochs=3, passes=9.0, seconds=None),
)


def make_trial(number=0, **changes):
    fields = {
        "id": f"t{number}",
        "number": number,
        "status": "complete",
        "method": "earlyrobust",
        "title": "earlyrobust",
        "params": {"method.gamma": 0.1},
        "values": (0.5 + number / 100,),
        "feasible": True,
        "outcome": make_outcome(),
    }
    return TrialRecord(**(fields | changes))


def make_summary(trials, selected="t0", **changes):
    comparison = Comparison(other="dense", threat=BOTH[0], difference=6.0, p_value=0.2101, distinguishable=False)
    fields = {
        "experiment": "demo",
        "config_digest": "digest",
        "seed": 0,
        "status": "finished",
        "trials": tuple(trials),
        "controls": (ControlRecord(kind="dense", seed=0, outcome=make_outcome(86.0), stages=()),),
        "selected": Selection(
            trial=selected, ticket="ticket", reason="Trial 0 has the best objective.", comparisons=(comparison,)
        ),
        "front": (),
        "threat_models": (),
        "cost_baselines": (),
        "stages": {},
        "versions": {},
        "total_seconds": 1.0,
    }
    return Summary(**(fields | changes))
