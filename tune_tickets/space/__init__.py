"""Search domains as one define-by-run function, and the papers' settings as warm-start points."""

from tune_tickets.space.grid import grid, trials_wanted
from tune_tickets.space.reference import reference
from tune_tickets.space.sampling import sample
from tune_tickets.space.warm_starts import warm_start_note, warm_starts

__all__ = ["grid", "reference", "sample", "trials_wanted", "warm_start_note", "warm_starts"]
