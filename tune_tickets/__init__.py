"""Hyperparameter search for robust lottery tickets in pre-trained language models."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tune_tickets.models.loading import LoadedTicket, load_ticket

__all__ = ["LoadedTicket", "__version__", "load_ticket"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    # Lazy, so that `tune-tickets --help` does not pay for torch.
    if name in ("LoadedTicket", "load_ticket"):
        from tune_tickets.models import loading

        return getattr(loading, name)
    raise AttributeError(f"module 'tune_tickets' has no attribute {name!r}")
