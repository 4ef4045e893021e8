"""Loads a YAML file and overrides as an `Experiment`: fixed settings and search domains, all checked."""

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

_RETIRED: dict[str, tuple[Any, str]] = {
    "resources.threads": (None, "a stage uses one torch thread per CPU: set resources.cpus"),
}
"""Removed keys: their default, which the config.yaml of older results still holds, and what to use instead."""
SEARCHABLE = ("method", "retraining", "ablation", "transfer.*.drawing", "transfer.*.retraining")
"""Sections that may contain search domains, at any depth."""


def _drop_retired(document: Document, source: Source) -> None:
    for name, (default, instead) in _RETIRED.items():
        path = split(name)
        section = get(document, path[:-1])
        if isinstance(section, dict) and section.pop(str(path[-1]), default) != default:
            raise source.error(path, f"this key was removed: {instead}")


def _collect_domains(document: Document, source: Source) -> dict[str, Domain]:
    """Return all domains by dotted path. A domain comes after those that its conditions name."""
    found: dict[str, Domain] = {}

    def walk(node: Any, path: KeyPath) -> None:  # noqa: ANN401 - any YAML value
        if is_domain(node):
            if not any(fnmatch(dotted(path), f"{section}.*") for section in SEARCHABLE):
                raise source.error(path, f"a search domain is only allowed in the sections {', '.join(SEARCHABLE)}")
            found[dotted(path)] = _parse(node, path, source)
        elif isinstance(node, dict):
            for key, value in node.items():
                walk(value, (*path, key))

    walk(document, ())
    _drop_overruled(found, document, source)
    return _in_order(found, document, source)


def concrete(document: Document, domains: Mapping[str, Domain], params: Mapping[str, Scalar]) -> Document:
    """Replace each domain by its value. A domain without a value is removed, which leaves the default."""
    fixed = deepcopy(document)
    for name in domains:
        if name in params:
            put(fixed, split(name), params[name])
        else:
            remove(fixed, split(name))
    return fixed


def active(domain: Domain, params: Mapping[str, Scalar], document: Document) -> bool:
    """Return whether the values drawn so far, or fixed in the file, meet every condition of a domain."""
    return all(
        domain.allows(name, params[name] if name in params else get(document, split(name))) for name in domain.when
    )


def fill(document: Document, domains: Mapping[str, Domain], forced: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return a point with the forced values, and the first value of every other domain that is then active."""
    params: dict[str, Scalar] = {}
    for name, domain in domains.items():
        if name in forced:
            params[name] = forced[name]
        elif active(domain, params, document):
            params[name] = domain.corners()[0]
    return params


def _reaching(name: str, document: Document, domains: Mapping[str, Domain], source: Source) -> dict[str, Scalar]:
    """Return values of other domains under which the domain `name` is searched."""
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
    """Remove domains whose conditions are false because of an override, such as those of other methods."""
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
        raise source.error(path, f"a domain has one kind, but this one has {' and '.join(kinds)}")
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
"""Keys that decide which other keys their section has."""
Overrides = Iterable[str] | Mapping[str, Any]
"""As on the command line, `["search.trials=4"]`, or by dotted path, `{"search.trials": 4}`."""


@dataclass(frozen=True)
class Experiment:
    """An experiment: settings and search domains, read and checked.

    Create one with `load` or `from_dict`.

    Attributes:
        document: The sections as given, with overrides applied.
        domains: Search domains by dotted path.
        settings: All settings, with the first value of every domain.
        source: Where each key comes from, for error messages.

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
        """Read an experiment file and check it.

        Args:
            path: The YAML file.
            overrides: As a mapping, `{"search.trials": 4}`, or as on the command line, `["search.trials=4"]`.

        Returns:
            The experiment.

        Raises:
            ConfigError: Something does not fit the schema. The message names the file, the line and the key.

        >>> Experiment.load("reviews.yaml", ["search.trials=4"])
        """
        document, source = read_yaml(Path(path))
        return cls._checked(document, source, overrides)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], overrides: Overrides = ()) -> "Experiment":
        """Check an experiment that is given as a dictionary of sections.

        Args:
            document: The sections, as in a YAML file.
            overrides: As for `load`.

        Returns:
            The experiment.

        Raises:
            ConfigError: Something does not fit the schema. The message names the key.

        >>> Experiment.from_dict({"method": {"kind": "robustt", "sparsity": 0.3}})
        """
        return cls._checked(plain(document), Source("dictionary"), overrides)

    @classmethod
    def _checked(cls, document: Document, source: Source, overrides: Overrides) -> "Experiment":
        if isinstance(overrides, Mapping):
            for key, value in overrides.items():
                apply_value(document, key, plain(value), source)
        else:
            for override in overrides:
                apply_override(document, override, source)
        _drop_retired(document, source)
        domains = _collect_domains(document, source)
        for name in domains:
            _reaching(name, document, domains, source)
        first = concrete(document, domains, fill(document, domains, {}))
        experiment = cls(document, domains, validate(Settings, first, source), source)
        _check_domains(experiment)
        return experiment

    def at(self, params: Mapping[str, Scalar]) -> Settings:
        """Return the settings of one trial: every domain replaced by its value in `params`."""
        return validate(Settings, concrete(self.document, self.domains, params), self.source)

    def resolved(self) -> dict[str, Any]:
        """Return the whole configuration, with defaults and with search domains.

        A section whose kind is searched gets no defaults, because its keys depend on the kind. Keys keep their order,
        so that an experiment that is read back draws its parameters in the same order.
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
        """The identity of the experiment: files with the same meaning have the same digest.

        Trials, budget and resources are not part of it, so that a search can be resumed with more of them.
        """
        identity = self.resolved()
        del identity["search"]["trials"], identity["search"]["budget"], identity["resources"]
        canonical = json.dumps(identity, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


def _ordered(tree: Any, like: Any) -> Any:  # noqa: ANN401 - any part of a document
    """Return the tree with the keys of `like` first, in their order."""
    if not isinstance(tree, dict) or not isinstance(like, dict):
        return tree
    return {key: _ordered(tree[key], like.get(key)) for key in _keys(tree, like)}


def _keys(tree: Mapping[str, Any], like: Mapping[str, Any]) -> list[str]:
    return [*(key for key in like if key in tree), *(key for key in tree if key not in like)]


def load_experiment(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """Shorthand for `Experiment.load`."""
    return Experiment.load(path, overrides)


def _check_domains(experiment: Experiment) -> None:
    """Check every bound and choice against the schema, so that no trial can fail there."""
    for name, domain in experiment.domains.items():
        needed = _reaching(name, experiment.document, experiment.domains, experiment.source)
        for value in domain.corners():
            params = fill(experiment.document, experiment.domains, {**needed, name: value})
            try:
                experiment.at(params)
            except ConfigError as error:
                raise ConfigError(f"{error}, while checking {value!r} of the search domain of {name}") from None
    # Only pairs within the method: warm starts may decide which ablation a method allows.
    for pair in combinations([name for name in experiment.domains if split(name)[0] == "method"], 2):
        _check_pair(experiment, pair)


def _check_pair(experiment: Experiment, pair: tuple[str, str]) -> None:
    """Check that no two values can be drawn together that are not valid together."""
    document, domains = experiment.document, experiment.domains
    needed: dict[str, Scalar] = {}
    for name in pair:
        needed |= _reaching(name, document, domains, experiment.source)
    for values in product(*(domains[name].corners() for name in pair)):
        params = fill(document, domains, {**needed, **dict(zip(pair, values, strict=True))})
        if not all(active(domains[name], params, document) for name in params):
            continue
        try:
            experiment.at(params)
        except ConfigError as error:
            drawn = " and ".join(f"{name}={value}" for name, value in zip(pair, values, strict=True))
            raise ConfigError(
                f"{error}, while checking {drawn}, which can be drawn together: give one a `when` on the other"
            ) from None
