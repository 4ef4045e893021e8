"""From a YAML file and overrides to an `Experiment`: fixed settings plus search domains, all checked."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tune_tickets.config.document import Document, apply_override, get, put, split
from tune_tickets.config.domain import Domain, Scalar
from tune_tickets.config.experiment import Settings
from tune_tickets.config.explain import validate
from tune_tickets.config.searchable import collect_domains, concrete, fill, reaching
from tune_tickets.config.source import Source, read_yaml
from tune_tickets.errors import ConfigError


@dataclass(frozen=True)
class Experiment:
    """One YAML file, read and checked. `settings` holds the first value of every domain."""

    document: Document
    domains: dict[str, Domain]
    settings: Settings
    source: Source

    def at(self, params: Mapping[str, Scalar]) -> Settings:
        """The settings of one trial: every domain replaced by its value in `params`."""
        return validate(Settings, concrete(self.document, self.domains, params), self.source)

    def resolved(self) -> dict[str, Any]:
        """The whole configuration with defaults filled in and domains in their places.

        A section whose kind is searched stands as it is written: its keys and defaults depend on the kind drawn.
        """
        full = self.settings.model_dump(mode="json")
        for *section, key in map(split, self.domains):
            if key == "kind":
                put(full, tuple(section), deepcopy(get(self.document, tuple(section))))
        for name, domain in self.domains.items():
            put(full, split(name), domain.model_dump(mode="json", exclude_defaults=True))
        return full

    @property
    def digest(self) -> str:
        """Identity of the experiment: two files that mean the same have the same digest."""
        canonical = json.dumps(self.resolved(), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


def load_experiment(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """Read, override and check an experiment file."""
    document, source = read_yaml(path)
    for override in overrides:
        apply_override(document, override, source)
    domains = collect_domains(document, source)
    for name in domains:
        reaching(name, document, domains, source)
    first = concrete(document, domains, fill(document, domains, {}))
    experiment = Experiment(document, domains, validate(Settings, first, source), source)
    _check_domains(experiment)
    return experiment


def _check_domains(experiment: Experiment) -> None:
    """Every bound and choice must fit the schema, so that no trial can be drawn that would fail there."""
    for name, domain in experiment.domains.items():
        needed = reaching(name, experiment.document, experiment.domains, experiment.source)
        for value in domain.corners():
            params = fill(experiment.document, experiment.domains, {**needed, name: value})
            try:
                experiment.at(params)
            except ConfigError as error:
                raise ConfigError(f"{error}, while checking {value!r} of the search domain of {name}") from None
