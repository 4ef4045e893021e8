"""Hyperparameter search for robust lottery tickets in pre-trained language models.

>>> from tune_tickets import Experiment, attack, tune
>>> result = tune(Experiment.load("search_spaces/earlyrobust.yaml"))
>>> attack(result, threat="textbugger/minilm")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_tickets.api.attack import Attacked, attack
    from tune_tickets.api.search import Result, report, tune
    from tune_tickets.config.loading import Experiment
    from tune_tickets.errors import TicketsError
    from tune_tickets.models.loading import LoadedTicket, load_ticket

__all__ = [
    "Attacked",
    "Experiment",
    "LoadedTicket",
    "Result",
    "TicketsError",
    "__version__",
    "attack",
    "load_ticket",
    "report",
    "tune",
]
__version__ = "0.1.0"

_HOMES = {
    "Attacked": "api.attack",
    "Experiment": "config.loading",
    "LoadedTicket": "models.loading",
    "Result": "api.search",
    "TicketsError": "errors",
    "attack": "api.attack",
    "load_ticket": "models.loading",
    "report": "api.search",
    "tune": "api.search",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    # Lazy, so that `import tune_tickets` and `tune-tickets --help` do not import torch.
    if name in _HOMES:
        return getattr(import_module(f"tune_tickets.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tune_tickets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
