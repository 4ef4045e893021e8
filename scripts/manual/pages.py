"""Append pages of docs/ that mkdocs.yml does not name to the navigation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig

LAST = "Further"


def on_config(config: MkDocsConfig, **kwargs: object) -> MkDocsConfig:
    """Append missing pages to the navigation."""
    named = set(_files(config.nav))
    left = sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in named)
    if left:
        config.nav = [*(config.nav or []), {LAST: left}]
    return config


def _files(nav: Any) -> Iterator[str]:  # noqa: ANN401 - nested lists and mappings
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for below in nav.values():
            yield from _files(below)
    else:
        for below in nav or []:
            yield from _files(below)
