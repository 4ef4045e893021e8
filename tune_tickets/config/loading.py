"""From a YAML file and overrides to an `Experiment`: fixed settings plus search domains, all checked."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import combinations, product
from pathlib import Path
from typing import Any

from tune_tickets.config.domain import DOMAINS, Domain, Scalar, is_domain
from tune_tickets.config.experiment import Settings
from tune_tickets.config.source import (
    Document,
    KeyPath,
    Source,
    apply_override,
    apply_value,
    dotted,
    get,
    plain,
    put,
    read_yaml,
    remove,
    split,
    validate,
)
from tune_tickets.errors import ConfigError

SEARCHABLE = ("method", "retraining", "ablation", "transfer.*.drawing", "transfer.*.retraining")
"""Sections that may hold search domains; adversary and drawing stand inside them."""


def collect_domains(document: Document, source: Source) -> dict[str, Domain]:
    """All domains by dotted path, each behind those its conditions name."""
    found: dict[str, Domain] = {}

    def walk(node: Any, path: KeyPath) -> None:  # noqa: ANN401 - any YAML value
        if is_domain(node):
            if not any(fnmatch(dotted(path), f"{section}.*") for section in SEARCHABLE):
                raise source.error(path, f"a search domain may stand only in the sections {', '.join(SEARCHABLE)}")
            found[dotted(path)] = _parse(node, path, source)
        elif isinstance(node, dict):
            for key, value in node.items():
                walk(value, (*path, key))

    walk(document, ())
    _drop_overruled(found, document, source)
    return _in_order(found, document, source)


def concrete(document: Document, domains: Mapping[str, Domain], params: Mapping[str, Scalar]) -> Document:
    """The document with each domain replaced by its value; a domain without one leaves the schema's default."""
    fixed = deepcopy(document)
    for name in domains:
        if name in params:
            put(fixed, split(name), params[name])
        else:
            remove(fixed, split(name))
    return fixed


def active(domain: Domain, params: Mapping[str, Scalar], document: Document) -> bool:
    """Whether every condition of a domain is met by the values drawn so far or fixed in the file."""
    return all(
        domain.allows(name, params[name] if name in params else get(document, split(name))) for name in domain.when
    )


def fill(document: Document, domains: Mapping[str, Domain], forced: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A point that holds the forced values, and the first value of every other domain that is then active."""
    params: dict[str, Scalar] = {}
    for name, domain in domains.items():
        if name in forced:
            params[name] = forced[name]
        elif active(domain, params, document):
            params[name] = domain.corners()[0]
    return params


def reaching(name: str, document: Document, domains: Mapping[str, Domain], source: Source) -> dict[str, Scalar]:
    """Values of the domains above `name` under which it is searched."""
    needed: dict[str, Scalar] = {}
    pending = [name]
    while pending:
        below = pending.pop(0)
        domain = domains[below]
        for above in domain.when:
            options = domains[above].corners() if above in domains else [get(document, split(above))]
            fitting = [value for value in options if domain.allows(above, value)]
            if not fitting:
                raise source.error((*split(below), "when"), f"the condition on {above} can never be true")
            if above in domains:
                needed.setdefault(above, fitting[0])
                pending.append(above)
    return needed


def _drop_overruled(domains: dict[str, Domain], document: Document, source: Source) -> None:
    """Leave out the domains whose conditions an override has made false, such as those of the methods not chosen."""
    dropped: set[str] = set()

    def overruled(domain: Domain) -> bool:
        fixed = [above for above in domain.when if above not in domains and split(above) in source.overrides]
        false = [above for above in fixed if not domain.allows(above, get(document, split(above)))]
        return bool(false or dropped & set(domain.when))

    while found := [name for name, domain in domains.items() if overruled(domain)]:
        for name in found:
            dropped.add(name)
            del domains[name]
            remove(document, split(name))


def _parse(node: Document, path: KeyPath, source: Source) -> Domain:
    kinds = [key for key in DOMAINS if key in node]
    if len(kinds) > 1:
        raise source.error(path, f"a domain has one kind, this has {' and '.join(kinds)}")
    return validate(DOMAINS[kinds[0]], node, source, prefix=path)


def _in_order(domains: dict[str, Domain], document: Document, source: Source) -> dict[str, Domain]:
    for name, domain in domains.items():
        for above in domain.when:
            if above not in domains and get(document, split(above)) is None:
                message = f"{above!r} is neither a search domain nor set in the file"
                raise source.error((*split(name), "when"), message)
    ordered: dict[str, Domain] = {}
    waiting = dict(domains)
    while waiting:
        ready = [name for name, domain in waiting.items() if not set(domain.when) & set(waiting)]
        if not ready:
            first = split(next(iter(waiting)))
            raise source.error(first, f"the conditions of {', '.join(waiting)} form a circle")
        ordered.update((name, waiting.pop(name)) for name in ready)
    return ordered


_KINDS = ("kind", "loss", "features")
"""Keys that decide what the other keys of their section mean."""
Overrides = Iterable[str] | Mapping[str, Any]
"""As on the command line, `["search.trials=4"]`, or by dotted path, `{"search.trials": 4}`."""


@dataclass(frozen=True)
class Experiment:
    """One YAML file, read and checked. `settings` holds the first value of every domain.

    >>> experiment = Experiment.load("reviews.yaml", {"search.trials": 4})
    >>> experiment.settings.search.trials
    4
    """

    document: Document
    domains: dict[str, Domain]
    settings: Settings
    source: Source

    @classmethod
    def load(cls, path: str | Path, overrides: Overrides = ()) -> "Experiment":
        """Read an experiment file and check it; a ConfigError names file, line and key of what does not fit."""
        document, source = read_yaml(Path(path))
        return cls._checked(document, source, overrides)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], overrides: Overrides = ()) -> "Experiment":
        """The same from sections as a dictionary, such as `{"method": {"kind": "robustt", "sparsity": 0.3}}`."""
        return cls._checked(plain(document), Source("dictionary"), overrides)

    @classmethod
    def _checked(cls, document: Document, source: Source, overrides: Overrides) -> "Experiment":
        if isinstance(overrides, Mapping):
            for key, value in overrides.items():
                apply_value(document, key, plain(value), source)
        else:
            for override in overrides:
                apply_override(document, override, source)
        domains = collect_domains(document, source)
        for name in domains:
            reaching(name, document, domains, source)
        first = concrete(document, domains, fill(document, domains, {}))
        experiment = cls(document, domains, validate(Settings, first, source), source)
        _check_domains(experiment)
        return experiment

    def at(self, params: Mapping[str, Scalar]) -> Settings:
        """The settings of one trial: every domain replaced by its value in `params`."""
        return validate(Settings, concrete(self.document, self.domains, params), self.source)

    def resolved(self) -> dict[str, Any]:
        """The whole configuration with defaults filled in and domains in their places.

        A section whose kind is searched stands as it is written: its keys and defaults depend on the kind drawn. Keys
        keep their order, so that what is read back draws its parameters in the same one.
        """
        full = self.settings.model_dump(mode="json")
        for *section, key in map(split, self.domains):
            if key in _KINDS:
                put(full, tuple(section), deepcopy(get(self.document, tuple(section))))
        for name, domain in self.domains.items():
            put(full, split(name), domain.model_dump(mode="json", exclude_defaults=True))
        return {key: _ordered(full[key], self.document.get(key)) for key in _keys(full, self.document)}

    @property
    def digest(self) -> str:
        """Identity of the experiment: two files that mean the same have the same digest.

        When it ends and where its stages run are no part of it: a search goes on elsewhere, and with more trials or a
        larger budget.
        """
        identity = self.resolved()
        del identity["search"]["trials"], identity["search"]["budget"], identity["resources"]
        canonical = json.dumps(identity, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


def _ordered(tree: Any, like: Any) -> Any:  # noqa: ANN401 - any part of a document
    """The same with the keys of `like` first, in its order."""
    if not isinstance(tree, dict) or not isinstance(like, dict):
        return tree
    return {key: _ordered(tree[key], like.get(key)) for key in _keys(tree, like)}


def _keys(tree: Mapping[str, Any], like: Mapping[str, Any]) -> list[str]:
    return [*(key for key in like if key in tree), *(key for key in tree if key not in like)]


def load_experiment(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """Read, override and check an experiment file."""
    return Experiment.load(path, overrides)


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
    # Within the method alone: which ablation a method allows may be left to the warm starts.
    for pair in combinations([name for name in experiment.domains if split(name)[0] == "method"], 2):
        _check_pair(experiment, pair)


def _check_pair(experiment: Experiment, pair: tuple[str, str]) -> None:
    """Two values that do not go together must not be drawn together."""
    document, domains = experiment.document, experiment.domains
    needed: dict[str, Scalar] = {}
    for name in pair:
        needed |= reaching(name, document, domains, experiment.source)
    for values in product(*(domains[name].corners() for name in pair)):
        params = fill(document, domains, {**needed, **dict(zip(pair, values, strict=True))})
        if not all(active(domains[name], params, document) for name in params):
            continue
        try:
            experiment.at(params)
        except ConfigError as error:
            drawn = " and ".join(f"{name}={value}" for name, value in zip(pair, values, strict=True))
            raise ConfigError(
                f"{error}, while checking {drawn}, which could be drawn together: give one a `when` on the other"
            ) from None
