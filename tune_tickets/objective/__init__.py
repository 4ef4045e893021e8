"""What makes one ticket better than another: judging each, choosing among all."""

from tune_tickets.objective.bounding import beats, falling, reachable
from tune_tickets.objective.choosing import feasible, front, ranked
from tune_tickets.objective.gains import doubtful_gains
from tune_tickets.objective.judging import Verdict, judge, names, near_constant

__all__ = [
    "Verdict",
    "beats",
    "doubtful_gains",
    "falling",
    "feasible",
    "front",
    "judge",
    "names",
    "near_constant",
    "ranked",
    "reachable",
]
