"""What an experiment reads beside its main task: the rows of further tasks, and the texts tickets are searched on."""

from collections.abc import Mapping

from tune_tickets.config import Experiment, Settings
from tune_tickets.config.document import split
from tune_tickets.config.domain import Scalar
from tune_tickets.config.orticket import CORPUS, ORTicket
from tune_tickets.config.searchable import fill
from tune_tickets.data.task import TaskData, load_task
from tune_tickets.errors import Unreachable
from tune_tickets.models.inspection import inspect_backbone
from tune_tickets.trial.corpus import search_texts

_SRNETS = "srnets"


def further_rows(settings: Settings, unseen: list[str]) -> dict[str, TaskData]:
    """The rows of every task under `transfer`, by name; what is out of reach is added to `unseen`."""
    found = {}
    for name, other in settings.transfer.items():
        try:
            found[name] = load_task(other.task, settings.seed)
        except Unreachable as error:
            unseen.append(f"transfer.{name}: {error}")
    return found


def texts_searched_on(experiment: Experiment, unseen: list[str]) -> dict[str, tuple[str, ...]]:
    """The texts of every corpus a trial could search on, by its name; what is out of reach is added to `unseen`."""
    found = {}
    for method in masked_searches(experiment):
        try:
            found[method.corpus] = search_texts(method, experiment.settings.seed)
        except Unreachable as error:
            unseen.append(f"method.corpus: {error}")
    return found


def masked_searches(experiment: Experiment) -> list[ORTicket]:
    """The searches on masked text that a trial could ask for, one per corpus."""
    domains = experiment.domains
    if "method.rows" in domains:
        raise experiment.source.error(
            split("method.rows"), "cannot be searched: the texts are read once, before the first trial; give a number"
        )
    wanted: dict[str, Scalar] = {"method.kind": "orticket", "method.search_on": CORPUS}
    forced = {name: value for name, value in wanted.items() if name in domains and domains[name].contains(value)}
    corpora = domains["method.corpus"].corners() if "method.corpus" in domains else [None]
    points = [forced | ({} if corpus is None else {"method.corpus": corpus}) for corpus in corpora]
    methods = [experiment.at(fill(experiment.document, domains, point)).method for point in points]
    return [method for method in methods if isinstance(method, ORTicket) and method.search_on == CORPUS]


def check_labels(experiment: Experiment, data: TaskData | None, transfers: Mapping[str, TaskData]) -> None:
    """SRNets prune the classifier too, so their mask fits only tasks with as many labels."""
    kind = experiment.domains.get("method.kind")
    if data is None or _SRNETS not in (kind.corners() if kind is not None else [experiment.settings.method.kind]):
        return
    for name, other in transfers.items():
        if len(other.labels) != len(data.labels):
            raise experiment.source.error(
                ("transfer", name),
                f"the task has {len(other.labels)} labels and the main one {len(data.labels)}, but the mask of method "
                f"{_SRNETS} covers the classifier as well: take tasks with as many labels, or another method",
            )


def check_lengths(experiment: Experiment) -> None:
    """Whether the backbone has positions for the texts of every task and for the blocks of a search."""
    model = experiment.settings.model
    for name, other in experiment.settings.transfer.items():
        inspect_backbone(model, other.task.max_length, f"transfer.{name}.task.max_length")
    for method in masked_searches(experiment):
        inspect_backbone(model, method.block, "method.block")
        inspect_backbone(model, method.head.max_length, "method.head.max_length")
