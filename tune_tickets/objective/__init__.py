"""What makes one ticket better than another: judging each, choosing among all."""

from tune_tickets.objective.choosing import feasible, front, ranked
from tune_tickets.objective.judging import Verdict, judge, names

__all__ = ["Verdict", "feasible", "front", "judge", "names", "ranked"]
