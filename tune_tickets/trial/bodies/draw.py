"""Stage `draw`: the mask of a ticket, identified by its bits."""

from tune_tickets.config.method import Drawing
from tune_tickets.methods.earlyrobust import drawer
from tune_tickets.tickets.distance import Trajectory
from tune_tickets.tickets.drawing import draw_random, random_scores
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.trial.bodies.search import TRAJECTORY_FILE
from tune_tickets.trial.execution import StageContext, StageOutput

MASK_FILE = "mask.safetensors"


def run(context: StageContext) -> StageOutput:
    """Draw by the scores of a search, at random, or at random with the layer-wise counts of another ticket."""
    mask = {"scores": _by_scores, "random": _at_random, "shuffled": _shuffled}[context.inputs["kind"]](context)
    context.attempt.put(MASK_FILE, mask.to_bytes())
    sparsity = {"heads": 100.0 * mask.heads_sparsity, "neurons": 100.0 * mask.neurons_sparsity}
    return StageOutput({"sparsity": sparsity}, content=mask.digest())


def load_mask(context: StageContext, role: str) -> StructuredMask:
    """The mask that an upstream stage drew."""
    return StructuredMask.from_bytes(context.store.read(context.upstream(role), MASK_FILE))


def _by_scores(context: StageContext) -> StructuredMask:
    trajectory = Trajectory.from_bytes(context.store.read(context.upstream("search"), TRAJECTORY_FILE))
    return trajectory.mask(context.inputs["stop"], drawer(Drawing.model_validate(context.inputs["drawing"])))


def _at_random(context: StageContext) -> StructuredMask:
    anatomy = context.inputs["anatomy"]
    scores = random_scores(anatomy["layers"], anatomy["heads"], anatomy["neurons"], context.inputs["ticket_seed"])
    return drawer(Drawing.model_validate(context.inputs["drawing"]))(*scores)


def _shuffled(context: StageContext) -> StructuredMask:
    return draw_random(load_mask(context, "like"), context.inputs["ticket_seed"])
