"""Which class serves which model: by `model.family` of the YAML, by the type of the model, or by an entry point.

To support a new architecture, write one class that derives from `tune_tickets.models.families.base.Family`.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel

from tune_tickets.errors import ResourceError
from tune_tickets.models.families.base import Family
from tune_tickets.models.families.bert import Bert
from tune_tickets.models.families.roberta import Roberta

KEY = "tune_tickets_family"
"""Configurations of models keep `model.family` under this name, also in ticket files and exported folders."""
ENTRY_POINTS = "tune_tickets.families"
"""The entry-point group by which other packages offer families; the name of an entry point is a model type."""
_BUILT_IN: tuple[type[Family], ...] = (Bert, Roberta)

Described = PreTrainedModel | PretrainedConfig | Mapping[str, Any]
"""A model, its configuration, or its configuration as in config.json."""


def family_of(described: Described) -> Family:
    """Return the family that serves a model.

    For a family outside this package this imports its module. The module may register its model with transformers, so
    call this before a configuration is built.

    Args:
        described: A model, its configuration, or the content of its config.json.

    Returns:
        The family.

    Raises:
        ResourceError: No family serves models of this type, or the named class cannot be imported.
    """
    family = find_family(described)
    if family is None:
        known = ", ".join(name for kind in _BUILT_IN for name in kind.model_types)
        raise ResourceError(
            f"no model family serves models of type {_lookup(described, 'model_type')!r} (supported: {known}). Take "
            "one of these, or write a class that derives from tune_tickets.models.families.base.Family and name it in "
            "the YAML: model.family: package.module:Class"
        )
    return family


def find_family(described: Described) -> Family | None:
    """Like `family_of`, but returns None if no family serves models of this type."""
    path, kind = _lookup(described, KEY), _lookup(described, "model_type")
    family = _by_type(str(kind)) if path is None else _by_path(str(path))
    if path is not None and family is not None and kind not in family.model_types:
        raise ResourceError(
            f"model.family {path!r} serves models of type {', '.join(family.model_types)}, but the model is of type "
            f"{kind!r}: name another family or another model"
        )
    return family


def _lookup(described: Described, name: str) -> object:
    if isinstance(described, Mapping):
        return described.get(name)
    return getattr(described.config if isinstance(described, PreTrainedModel) else described, name, None)


@cache
def _by_type(kind: str) -> Family | None:
    built_in = next((family for family in _BUILT_IN if kind in family.model_types), None)
    if built_in is not None:
        return built_in()
    return next((_by_path(point.value) for point in entry_points(group=ENTRY_POINTS, name=kind)), None)


@cache
def _by_path(path: str) -> Family:
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise ResourceError(
            f"the model family {path!r}: cannot import {module} ({error}). Install it, or put its folder on PYTHONPATH"
        ) from None
    if not (isinstance(found, type) and issubclass(found, Family)):
        raise ResourceError(
            f"the model family {path!r} is not a class that derives from tune_tickets.models.families.base.Family"
        )
    return found()
