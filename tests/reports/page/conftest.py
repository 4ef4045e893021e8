"""Results folders written by hand, some of them with hostile content."""

import json
from html.parser import HTMLParser

import pytest

from tests.reports.conftest import (
    BASELINES,
    make_attack,
    make_cost,
    make_outcome,
    make_summary,
    make_trial,
    make_twin,
)
from tune_tickets.reports.confirmed import estimates
from tune_tickets.reports.confirmed import tests as paired_tests
from tune_tickets.results.records import (
    Confirmation,
    ConfirmedModel,
    SeedRun,
    StageUse,
    Substitution,
    ThreatRecord,
    TransferFigures,
)
from tune_tickets.results.summary import write_summary

YAML = """\
model: {source: bundled}
method: {kind: earlyrobust, gamma: {uniform: [0.05, 0.2], when: {method.kind: earlyrobust}}}
objective: {kind: weighted, metrics: [clean, aua], constraints: []}
tracking: {uri: "http://user:secret@host"}
"""
HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "\"'><svg onload=window.pwned=1>",
    "</td></table><h1>won</h1>",
    "[here](javascript:window.pwned=1)",
    "![x](https://example.com/x.png) https://example.com www.example.com",
    "`a` | b | *c* __d__ ~~e~~ <!-- f",
    "\u202eegnahc\x1b[31m",
    "{{ 7 * 7 }} {% raw %}",
)


def substitutions(texts):
    return tuple(
        Substitution(
            row=row, left=text, old=f"old{text}", new=f"new{text}", right=text, similarity=0.5, successful=True
        )
        for row, text in enumerate(texts)
    )


def threat(name="textfooler/minilm", texts=("a good film",)):
    return ThreatRecord(
        name=name,
        fingerprint=f"print-of-{name}",
        resources={"neighbours": "minilm"},
        substitutions=substitutions(texts),
        substitutions_of="t0",
    )


def hostile_summary():
    """Whatever can come from data, settings or an error is hostile."""
    script = HOSTILE[0]
    twin = make_twin(name=script, groups={HOSTILE[1]: 50.0})
    attack = make_attack(threat=HOSTILE[2])
    outcome = make_outcome(ood=(twin,), attacks=[attack], flags=HOSTILE, notes=HOSTILE)
    moved = TransferFigures(name=HOSTILE[3], outcome=make_outcome(attacks=[attack]), stages=())
    outcome = outcome.model_copy(update={"transfers": (moved,)})
    trials = [
        make_trial(0, outcome=outcome, title=script, params={script: HOSTILE[1]}, metrics=outcome.metrics()),
        make_trial(1, status="failed", outcome=None, values=None, feasible=None, error="\n".join(HOSTILE)),
    ]
    return make_summary(
        trials,
        experiment=script,
        threat_models=(threat(HOSTILE[2], HOSTILE),),
        versions={script: HOSTILE[1]},
        stages={script: StageUse(asked=2, computed=1, seconds=3.0)},
        stopped_by=script,
    )


def many(number):
    """That many trials of several methods with everything a trial can have."""
    trials = [
        make_trial(
            index,
            title=("earlyrobust", "robustt", "finetune")[index % 3],
            outcome=make_outcome(70.0 + index % 20, attacks=[make_attack(aua=10.0 + index % 30)]),
            metrics=make_outcome(70.0 + index % 20, attacks=[make_attack(aua=10.0 + index % 30)]).metrics(),
            cost=make_cost(search=(0.5, 4.0)),
        )
        for index in range(number)
    ]
    baselines = BASELINES if number > 3 else ()  # the first of them is trial 3
    return make_summary(trials, cost_baselines=baselines, threat_models=(threat(texts=["a good film"] * 20),))


def confirmation(digest="digest"):
    def runs(name, values):
        found = (("clean", value) for value in values)
        return [
            SeedRun(model=name, seed=seed, status="complete", metrics=dict([one])) for seed, one in enumerate(found, 1)
        ]

    kinds = (("t0", "ticket", [80.0, 82.0, 84.0]), ("dense", "dense", [70.0, 71.0, 75.0]))
    models = tuple(
        ConfirmedModel(
            name=name,
            kind=kind,
            trial="t0" if kind == "ticket" else None,
            title="earlyrobust",
            params={},
            failed=0,
            estimates=estimates(runs(name, values)),
            runs=tuple(runs(name, values)),
        )
        for name, kind, values in kinds
    )
    return Confirmation(
        experiment="demo",
        config_digest=digest,
        report_fingerprint="rows",
        rows=12,
        attacked_rows=4,
        seeds=(1, 2, 3),
        tickets=("t0",),
        models=models,
        tests=paired_tests(models),
        total_seconds=1.0,
    )


@pytest.fixture
def results(tmp_path):
    """Writes a results folder."""

    def write(summary, confirmed=None):
        write_summary(summary, tmp_path / "found")
        (tmp_path / "found" / "config.yaml").write_text(YAML, encoding="utf-8")
        if confirmed is not None:
            (tmp_path / "found" / "confirm.json").write_text(json.dumps(confirmed.model_dump(mode="json")))
        return tmp_path / "found"

    return write


class Parsed(HTMLParser):
    """What a browser would make of a page: elements with attributes, and all text."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.scripts, self._inside = [], [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside is None:
            self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
