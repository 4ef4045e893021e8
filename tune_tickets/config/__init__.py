"""Schemas of an experiment file, one file per group of sections, and loading it with `key=value` overrides."""

from tune_tickets.config.experiment import Settings
from tune_tickets.config.loading import Experiment, load_experiment

__all__ = ["Experiment", "Settings", "load_experiment"]
