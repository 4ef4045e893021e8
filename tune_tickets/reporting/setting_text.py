"""Settings in words: fixed values, search domains, and what a winner took from them."""

from typing import Any

from tune_tickets.config.domain import DOMAINS, is_domain
from tune_tickets.reporting.finished import Finished


def chosen_text(experiment: Finished, name: str) -> str:
    """A fixed value, or the winner's and what it was chosen from."""
    value = experiment.settings[name]
    if not is_domain(value):
        return plain(value)
    winner = experiment.winner
    domain = domain_text(value)
    return f"{plain(winner.params[name])} of {domain}" if winner and name in winner.params else domain


def domain_text(domain: dict[str, Any]) -> str:
    """A search domain without its conditions: 'uniform [0.1, 0.5]'."""
    kind = next(key for key in DOMAINS if key in domain)
    return f"{kind} {plain(domain[kind])}"


def condition_text(domain: dict[str, Any]) -> str:
    """When it is searched at all: 'method.kind: earlyrobust'; empty for always."""
    return "; ".join(f"{path}: {plain(value)}" for path, value in (domain.get("when") or {}).items())


def plain(value: Any) -> str:  # noqa: ANN401 - any YAML value
    """A value as a person writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {plain(each)}' for key, each in value.items())}}}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
