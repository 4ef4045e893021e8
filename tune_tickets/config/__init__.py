"""Pydantic schemas of an experiment, one file per YAML section, and loading them with `key=value` overrides."""

from tune_tickets.config.experiment import Settings
from tune_tickets.config.loading import Experiment, load_experiment

__all__ = ["Experiment", "Settings", "load_experiment"]
