"""The ticket card in every exported folder: a Markdown page with the metadata that model hubs read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path, PurePath
from typing import Any

from ruamel.yaml import YAML
from torch import nn

from tune_tickets.config.source import read_yaml
from tune_tickets.errors import TicketsError
from tune_tickets.export.mean_pooling import CODE_FILE
from tune_tickets.export.subject import Subject
from tune_tickets.models.surgery import count_parameters
from tune_tickets.reports.attacked import harmless
from tune_tickets.results.folder import Results
from tune_tickets.results.metrics import find, label, shown
from tune_tickets.results.records import Outcome, Summary
from tune_tickets.results.summary import read_summary
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket

TEXT = "a gripping, beautifully acted film"
SECOND = "the film is good"

PRUNED = """\
from tune_tickets.models.loading import load_ticket
ticket = load_ticket(".")
print(ticket.predict([{row}]))
"""
TRANSFORMERS = """\
from transformers import pipeline
classifier = pipeline("text-classification", model=".")
print(classifier({row}, truncation=True))
"""
MEAN = TRANSFORMERS.replace('model="."', 'model=".", trust_remote_code=True')
ONNX = """\
import onnxruntime, transformers
inputs = transformers.AutoTokenizer.from_pretrained(".")({row}, truncation=True, return_tensors="np")
print(onnxruntime.InferenceSession("model.onnx").run(["logits"], dict(inputs)))
"""


def example(form: str, columns: Sequence[str], reads_mean: bool = False) -> str:
    """Return example code for 'hf', 'pruned' or 'onnx', with one text or a pair."""
    pair = len(columns) == 2
    if form == "hf":
        row = f'{{"text": "{TEXT}", "text_pair": "{SECOND}"}}' if pair else f'"{TEXT}"'
        return (MEAN if reads_mean else TRANSFORMERS).format(row=row)
    if form == "onnx":
        return ONNX.format(row=f'["{TEXT}"], ["{SECOND}"]' if pair else f'["{TEXT}"]')
    return PRUNED.format(row=f'("{TEXT}", "{SECOND}")' if pair else f'"{TEXT}"')


@dataclass(frozen=True)
class Background:
    """What is known about the search of a ticket. Empty if its results folder is not there."""

    experiment: str | None = None
    task: str | None = None
    outcome: Outcome | None = None


def background_of(subject: Subject) -> Background:
    """Read the summary next to the ticket, if it is about this ticket. Unreadable files are ignored."""
    if subject.ticket is None or subject.file is None:
        return Background()
    folder = subject.file.resolve().parent
    try:
        summary = read_summary(folder)
    except TicketsError:
        return Background()
    found = _outcome(summary, subject)
    return Background(summary.experiment, _task(folder, found[0]), found[1]) if found is not None else Background()


def _outcome(summary: Summary, subject: Subject) -> tuple[str | None, Outcome] | None:
    """Return the ticket's metrics, and the further task they were measured on, if any."""
    assert subject.ticket is not None
    story = subject.ticket.metadata
    winner = next((trial for trial in summary.trials if trial.id == summary.selected.trial), None)
    if winner is None or winner.outcome is None:
        return None
    candidates = [(None, winner.outcome), *((further.name, further.outcome) for further in winner.outcome.transfers)]
    # The file may have been replaced: only use metrics that were measured on this model.
    same = [found for found in candidates if _rounded(found[1].metrics()) == _rounded(story.metrics)]
    return same[0] if same and winner.params == story.params else None


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in metrics.items()}


def _task(folder: Path, further: str | None) -> str | None:
    """Return the source of the task's rows; of a local file only its name."""
    try:
        document, _ = read_yaml(Results(folder, store_url="").config)
        section = document if further is None else document["transfer"][further]
        source = str(section["task"]["source"])
    except (TicketsError, KeyError, TypeError):
        return None
    return Path(source).name if Path(source).is_absolute() else source


FILE = "README.md"
MARK = "lottery-ticket"
"""A tag of every card. It marks a folder as an export."""
LIBRARIES = {"hf": "transformers", "pruned": "tune_tickets", "onnx": "onnx"}
BUNDLED = "sentence-transformers/all-MiniLM-L6-v2"
"""The name of the bundled encoder on the hub. Its weights are compared with the published ones."""
FORMS = {
    "hf": "A plain transformers folder of full size: removed weights are zero, so it is as large and slow as the whole "
    "model. `truncation=True` cuts texts at the length of the training.",
    "pruned": "The model without the removed heads and neurons, in one file without pickle. Loading it needs "
    "`tune_tickets`.",
    "onnx": "The model without the removed heads and neurons, for any batch and length. The logits are in the "
    "order of `id2label` in `config.json`.",
}
_CODE = (
    f" The classifier reads the mean of all tokens, which no class of transformers does: `{CODE_FILE}` has the code, "
    "and `trust_remote_code=True` runs it."
)
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~$-])")


def card(subject: Subject, form: str, background: Background) -> str:
    """Return the whole page."""
    code = _CODE if form == "hf" and subject.reads_mean else ""
    parts = [
        f"---\n{_yaml(_metadata(subject, form, background))}---",
        f"# {escaped(background.experiment or subject.name)}",
        _opening(subject),
        f"## Use\n\n{FORMS[form]}{code} Run this in the folder, or replace the dot by its path:",
        f"```python\n{example(form, subject.columns, subject.reads_mean)}```",
        f"It reads {_listed(subject.columns)} and answers {_listed(subject.labels)}; texts longer than "
        f"{subject.max_length} tokens are cut.",
    ]
    if subject.ticket is not None:
        parts += _of_ticket(subject.ticket, subject, background)
    parts += ["## Limits", *_limits(subject, background)]
    return "\n\n".join(parts) + "\n"


def escaped(text: object) -> str:
    """Return text for one line of Markdown: no markup, no HTML, no control characters."""
    plain = harmless(str(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain)


def _metadata(subject: Subject, form: str, background: Background) -> dict[str, Any]:
    found: dict[str, Any] = {
        "library_name": LIBRARIES[form],
        "pipeline_tag": "text-classification",
        "tags": [MARK, "pruning", "robustness", "tune_tickets", *([form] if form == "onnx" else [])],
        "metrics": ["accuracy"],
    }
    if subject.ticket is not None and (base := _base_model(subject.ticket.metadata.backbone)):
        found["base_model"] = base
    clean = subject.ticket.metadata.metrics.get("clean") if subject.ticket is not None else None
    if clean is not None and background.task is not None:
        dataset = {"type": background.task, "name": background.task, "split": "select rows of the search"}
        metric = {"type": "accuracy", "value": round(clean / 100, 4)}
        task = {"type": "text-classification"}
        result = {"task": task, "dataset": dataset, "metrics": [metric]}
        found["model-index"] = [{"name": background.experiment or subject.name, "results": [result]}]
    return found


def _base_model(backbone: str) -> str | None:
    """Return the backbone's name on the hub; None for a local folder."""
    if backbone == "bundled":
        return BUNDLED
    return backbone if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", backbone) and not backbone.startswith(".") else None


def _opening(subject: Subject) -> str:
    count, zeros = count_parameters(subject.model), _zero_weights(subject)
    if subject.ticket is None:
        return f"A text classifier of {count.total:,} parameters{f', {zeros:,} of them zero' if zeros else ''}."
    story = subject.ticket.metadata
    backbone = escaped(_base_model(story.backbone) or PurePath(story.backbone).name)
    cut = list(_cut(subject.ticket.mask, zeros))
    left = (
        f"{count.without_embeddings - zeros:,} parameters without the embeddings are left, "
        f"{count.total - zeros:,} with them."
    )
    if not cut:
        return f"The whole model {backbone}, trained with the method {escaped(story.method)}: nothing is cut; {left}"
    found = f"A lottery ticket: a subnetwork of {backbone}, found by the method {escaped(story.method)}."
    return f"{found} {', '.join(cut)}; {left}"


def _cut(mask: StructuredMask, zeros: int) -> Iterator[str]:
    if mask.heads_sparsity or mask.neurons_sparsity:
        yield f"{mask.heads_sparsity:.1%} of the heads and {mask.neurons_sparsity:.1%} of the neurons are cut"
    if zeros:
        yield f"{zeros:,} single weights are cut, which stay in the file as zeros"


def _zero_weights(subject: Subject) -> int:
    """Return how many single weights are zero. Embeddings are not pruned, but have zeros for padding."""
    matrices = [module.weight for module in subject.model.modules() if isinstance(module, nn.Linear)]
    return sum(int((matrix == 0).sum()) for matrix in matrices)


def _of_ticket(ticket: Ticket, subject: Subject, background: Background) -> Iterator[str]:
    story, mask = ticket.metadata, ticket.mask
    settings = {"method.kind": story.method, **story.params} if story.method else story.params
    if settings:
        yield "## Method"
        yield _table(("setting", "value"), settings.items())
    layers = zip(mask.heads_kept(), mask.neurons_kept(), strict=True)
    yield "## Structure"
    yield _table(("layer", "heads", "neurons"), ((number, *kept) for number, kept in enumerate(layers, start=1)))
    if background.outcome is not None:
        yield "## Metrics"
        yield _figures(background.outcome)
        yield (
            "Accuracy under attack depends on the threat model. Only compare values with the same fingerprint. "
            "Intervals are 95% intervals."
        )
    elif story.metrics:
        yield "## Metrics"
        yield _table(("metric", "value"), ((name, f"{value:.4g}") for name, value in sorted(story.metrics.items())))


def _figures(outcome: Outcome) -> str:
    measured: list[tuple[str, str, object, str, int]] = [("clean", "", outcome, "", outcome.clean.rows)]
    if outcome.suite is not None:
        measured.append(("aua", " (all attacks, one after the other)", outcome, "", outcome.suite.rows))
    measured += [
        (f"{'aua' if each.after is None else 'aua_after'}/{each.threat}", "", each, each.fingerprint[:16], each.rows)
        for each in outcome.attacks
    ]
    measured += [(f"ood/{twin.name}", f" ({twin.metric})", twin, "", twin.rows) for twin in outcome.ood]
    lines = [
        (f"{label(name)}{note}", fingerprint, shown(row, source), rows)
        for name, note, source, fingerprint, rows in measured
        if (row := find(name)) is not None
    ]
    return _table(("metric", "fingerprint of the threat model", "value", "rows"), lines)


def _limits(subject: Subject, background: Background) -> Iterator[str]:
    known = subject.ticket is not None and bool(subject.ticket.metadata.metrics)
    if known:
        yield (
            "- The metrics were measured on rows that guided the search, so they are optimistic. `tune-tickets "
            "confirm` measures on rows that the search has not used."
        )
        yield "- The robustness was measured for these threat models only."
    else:
        yield "- No metrics of this model are known."
    yield "- The licences of the backbone and of the training data apply. This card does not name them."
    if background.outcome is not None:
        for note in (*background.outcome.flags, *background.outcome.notes):
            yield f"- {escaped(note)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"“{escaped(name)}”" for name in names)


def _table(header: Sequence[str], rows: Any) -> str:  # noqa: ANN401 - rows of anything that can be printed
    lines = [header, ["---"] * len(header), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _yaml(tree: Mapping[str, Any]) -> str:
    stream = StringIO()
    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(dict(tree), stream)
    return stream.getvalue()
