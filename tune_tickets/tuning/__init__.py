"""Searcher, scheduler, tuner, plan and preflight: the driver's side of a search."""
