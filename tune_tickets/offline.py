"""Whether the network may be touched: one switch for our own downloads, the model hub and the data sets."""

import os

OFFLINE_VARIABLE = "TUNE_TICKETS_OFFLINE"
_HUB = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_ON = frozenset({"1", "true", "yes", "on"})


def is_offline() -> bool:
    """Whether this process was told to stay off the network, by our variable or by the hub's."""
    return any(os.environ.get(name, "").strip().lower() in _ON for name in (OFFLINE_VARIABLE, "HF_HUB_OFFLINE"))


def go_offline() -> None:
    """Keep this process and its children off the network; the hub's libraries read this once, when imported."""
    os.environ.update(offline_environment())


def offline_environment() -> dict[str, str]:
    """The variables that keep another process off the network."""
    return dict.fromkeys((OFFLINE_VARIABLE, *_HUB), "1")
