"""The domains of a document: finding them, ordering them by their conditions, and putting values in their places."""

from collections.abc import Mapping
from copy import deepcopy
from fnmatch import fnmatch
from typing import Any

from tune_tickets.config.document import Document, get, put, remove, split
from tune_tickets.config.domain import DOMAINS, Domain, Scalar, is_domain
from tune_tickets.config.explain import validate
from tune_tickets.config.source import KeyPath, Source, dotted

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
