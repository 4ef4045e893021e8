"""Stage `draw`: the mask of a ticket, identified by its bits."""

from collections.abc import Callable
from functools import partial

from torch import Tensor
from transformers import PreTrainedModel

from tune_tickets.config.training import Drawing
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods import stages
from tune_tickets.methods.bodies.start import load_start
from tune_tickets.methods.given import load_rows
from tune_tickets.methods.stages import MASK_FILE, SCORES_FILE, TRAJECTORY_FILE
from tune_tickets.models.families import family_of
from tune_tickets.models.seeding import derived_seed
from tune_tickets.tickets.distance import Draw, Trajectory
from tune_tickets.tickets.drawing import (
    draw,
    draw_random,
    draw_unstructured,
    magnitudes,
    random_scores,
    scores_from_bytes,
    shuffled,
)
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.unstructured import Mask, UnstructuredMask


def run(context: StageContext) -> StageOutput:
    """Draw by the scores of a search, by magnitude, at random, or with the counts per layer of another ticket."""
    mask = _WAYS[context.inputs["kind"]](context)
    context.attempt.put(MASK_FILE, mask.to_bytes())
    return StageOutput({"structured": isinstance(mask, StructuredMask)}, content=mask.digest())


def load_mask(context: StageContext, role: str) -> Mask:
    """The mask that an upstream stage drew."""
    return stages.Draw.mask_of(context.store, context.upstream(role))


def load_unstructured(context: StageContext, role: str) -> UnstructuredMask:
    """A mask of single weights that an upstream stage drew."""
    mask = load_mask(context, role)
    assert isinstance(mask, UnstructuredMask)
    return mask


def _by_scores(context: StageContext) -> StructuredMask:
    trajectory = Trajectory.from_bytes(context.store.read(context.upstream("search"), TRAJECTORY_FILE))
    return trajectory.mask(context.inputs["stop"], drawer(Drawing.model_validate(context.inputs["drawing"])))


def _by_ranking(context: StageContext) -> UnstructuredMask:
    inputs = context.inputs
    scores = scores_from_bytes(context.store.read(context.upstream("search"), SCORES_FILE))
    within = load_unstructured(context, "within") if "within" in context.stage.upstream else None
    return draw_unstructured(scores, inputs["sparsity"], inputs["ranking"], within)


def _at_random(context: StageContext) -> StructuredMask:
    anatomy = context.inputs["anatomy"]
    scores = random_scores(anatomy["layers"], anatomy["heads"], anatomy["neurons"], context.inputs["ticket_seed"])
    return drawer(Drawing.model_validate(context.inputs["drawing"]))(*scores)


def _found(context: StageContext) -> UnstructuredMask:
    return UnstructuredMask.from_bytes(context.store.read(context.upstream("search"), MASK_FILE))


def _by_magnitude(context: StageContext) -> UnstructuredMask:
    """The first cut of SRNets: the smallest weights of every matrix, before any of them is trained."""
    model, _ = load_start(context, load_rows(context).labels)
    scores = magnitudes(masked_weights(model, context.inputs["pooler"]))
    return draw_unstructured(scores, context.inputs["sparsity"], "matrix")


def _shuffled(context: StageContext) -> Mask:
    like = load_mask(context, "like")
    # With the digest, so that a ticket that was drawn at random with this seed is not drawn again.
    seed = derived_seed("shuffled", like.digest(), context.inputs["ticket_seed"])
    return draw_random(like, seed) if isinstance(like, StructuredMask) else shuffled(like, seed)


_WAYS: dict[str, Callable[[StageContext], Mask]] = {
    "scores": _by_scores,
    "ranking": _by_ranking,
    "found": _found,
    "magnitude": _by_magnitude,
    "random": _at_random,
    "shuffled": _shuffled,
}


def drawer(drawing: Drawing) -> Draw:
    """The function from scores to a mask, for a drawing section."""
    return partial(
        draw,
        heads=drawing.heads,
        neurons=drawing.neurons,
        heads_scope=drawing.heads_scope,
        neurons_scope=drawing.neurons_scope,
    )


def masked_weights(model: PreTrainedModel, pooler: bool) -> dict[str, Tensor]:
    """The weights that SRNets prunes, including the classifier, by name."""
    return {name: linear.weight for name, linear in family_of(model).matrices_with_classifier(model, pooler).items()}
