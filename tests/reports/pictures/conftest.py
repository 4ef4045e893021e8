"""Evidence written by hand, with data for every picture."""

from tune_tickets.reports.pictures.evidence import (
    Axis,
    Curve,
    Epochs,
    Evidence,
    Example,
    MaskDistances,
    Measured,
    Pattern,
)
from tune_tickets.results.records import Confirmation, ConfirmedModel, Estimate, SeedRun

THREAT = "textfooler/minilm"


def make_measured(name, clean, aua, kind="trial", title="earlyrobust", threats=(THREAT,), **changes):
    """A model with intervals of 4 points on either side; `cut` is the share of everything cut, in %."""
    cut = changes.pop("cut", 30.0)
    metrics = {"clean": clean, "low/clean": clean - 4, "high/clean": clean + 4, "aua": aua}
    for threat in threats:
        metrics |= {f"aua/{threat}": aua, f"low/aua/{threat}": aua - 4, f"high/aua/{threat}": aua + 4}
    metrics |= {"sparsity": cut, "sparsity/heads": cut, "sparsity/neurons": cut, "sparsity/weights": 0.0}
    metrics |= changes.pop("metrics", {})
    settings = {"method.kind": "earlyrobust", "method.gamma": 0.1, "retraining.epochs": 3} | changes.pop("settings", {})
    return Measured(name, kind, title, metrics, settings=settings, **changes)


DENSE = make_measured(
    "dense", 88.0, 12.0, kind="dense", title="finetune", cut=0.0, settings={"method.kind": "finetune"}
)
RANDOM = make_measured("random-0", 80.0, 14.0, kind="random", title="random", settings={"method.kind": "random"})


def make_confirmation(values, metric="aua"):
    """t0 and a random ticket like it: `values` by model name, one per seed."""
    models = []
    for name, kind in (("t0", "ticket"), ("random like t0", "random"), ("dense", "dense")):
        runs = tuple(
            SeedRun(model=name, seed=seed, status="complete", metrics={metric: value, "clean": 80.0 + value / 10})
            for seed, value in enumerate(values.get(name, ()))
        )
        means = {metric: sum(values[name]) / len(values[name])} if runs else {}
        means |= {"clean": 80.0, "aua": means[metric]} if runs else {}
        models.append(
            ConfirmedModel(
                name=name,
                kind=kind,
                trial=None if kind == "dense" else "t0",
                title=name,
                params={},
                failed=0,
                estimates={
                    key: Estimate(mean=mean, interval=(mean - 2, mean + 2), seeds=3) for key, mean in means.items()
                },
                runs=runs,
            )
        )
    return Confirmation(
        experiment="demo",
        config_digest="digest",
        report_fingerprint="rows",
        rows=100,
        attacked_rows=50,
        seeds=(1, 2, 3),
        tickets=("t0",),
        models=tuple(models),
        tests=(),
        total_seconds=1.0,
    )


def make_curve(stage="retrain", models=("t0",), title="earlyrobust", records=(), **settings):
    return Curve(stage, tuple(models), title, settings, tuple(records))


EPOCHS = tuple(
    {"epoch": epoch, "step": epoch, "loss": 1.0 / epoch, "clean": 70.0 + epoch, "probe": 30.0 + 2 * epoch}
    for epoch in (1, 2, 3)
)
MASKS = tuple(
    {"step": epoch, "loss": 0.5, "penalty": 0.9 - epoch / 10, "masks_zero": 10.0 * epoch, "masks_one": 5.0 * epoch}
    for epoch in (1, 2, 3)
)
LOOKS = tuple({"step": step, "loss": 0.7, "clean": 60.0 + step, "weights_cut": 50.0} for step in (1, 2, 3))
TWIN_LOOKS = tuple({"step": step, "ood/hans": 40.0 + 2 * step} for step in (1, 2, 3))
STARTS = {"method.sparsity": 0.5, "method.eval_interval": 25, "method.debiasing.loss": "ce"}


def make_epochs(model="t1", title="earlyrobust", aua=(10.0, 20.0, 34.0)):
    """A model attacked after every epoch: clean accuracy 50 points above Aua, intervals of 4 points on either side."""
    return Epochs(model, title, tuple(make_measured(model, 50.0 + value, value).metrics for value in aua))


def make_evidence(**changes):
    """Data for every picture."""
    ood = [
        make_measured(
            f"s{number}",
            70.0 + number,
            20.0,
            title="srnets",
            cut=50.0,
            metrics={"ood/hans": 50.0 + number, "ood/hans/lexical": 40.0, "sparsity/weights": 50.0 + 20 * (number > 1)},
            settings={
                "method.kind": "srnets",
                "method.pruning": "mask_training",
                "method.sparsity": 0.5,
                "method.start_sparsity": start,
                "method.gamma": None,
            },
        )
        for number, start in enumerate((None, 0.2, None, 0.2))
    ]
    fields = {
        "measured": (
            make_measured("t0", 86.0, 30.0, cut=20.0, params={"method.gamma": 0.1, "method.drawing.heads": 1 / 6}),
            make_measured(
                "t1",
                84.0,
                34.0,
                cut=40.0,
                settings={"method.gamma": 0.2, "retraining.epochs": 5},
                params={"method.gamma": 0.2, "method.drawing.heads": 1 / 3},
            ),
            make_measured("t2", 83.0, 33.0, cut=40.0, params={"method.gamma": 0.1, "method.drawing.heads": 1 / 3}),
            *ood,
            DENSE,
            RANDOM,
        ),
        "selected": "t1",
        "confirmation": make_confirmation({"t0": [30.0, 32.0, 34.0], "random like t0": [20.0, 20.0], "dense": [12.0]}),
        "curves": (
            make_curve(records=EPOCHS),
            make_curve(models=("dense",), title="finetune", records=EPOCHS),
            make_curve("masks", title="robustt", records=MASKS, **{"method.penalty": 0.1}),
            make_curve("masks", ("t1",), "robustt", MASKS, **{"method.penalty": 0.5}),
            make_curve("srnets_masks", ("s0",), "srnets", LOOKS, **STARTS, **{"method.start.at": "end"}),
            make_curve("srnets_masks", ("s1",), "srnets", LOOKS, **STARTS, **{"method.paradigm": "pretrained"}),
            make_curve("ood_curve", ("s0",), "srnets", TWIN_LOOKS, **STARTS, **{"method.start.at": "end"}),
            make_curve("ood_curve", ("s1",), "srnets", TWIN_LOOKS, **STARTS, **{"method.paradigm": "pretrained"}),
        ),
        "distances": (
            MaskDistances(
                "t1", "earlyrobust", ((0.0, 0.25), (0.25, 0.0)), ((0.0, 0.1), (0.1, 0.0)), 2, True, 0.05, 0.1
            ),
        ),
        "patterns": (
            Pattern("t1", "earlyrobust", 1, ((100.0, 0.0), (100.0, 100.0)), (70.0, 50.0), structured=True),
            Pattern("random control", "random", 3, ((66.7, 33.3), (100.0, 100.0)), (70.0, 50.0), structured=True),
        ),
        "examples": (
            Example(
                "t1", THREAT, 7, True, "positive", "negative", (("a ", "a "), ("good", "fine"), (" film", " film"))
            ),
        ),
        "axes": (Axis("method.gamma"), Axis("method.drawing.heads", choices=(1 / 6, 1 / 3))),
        "importances": {"objective": {"method.gamma": 0.75, "method.drawing.heads": 0.25}},
    }
    return Evidence(**(fields | changes))
