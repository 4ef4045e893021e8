"""IMP with rewinding, the lottery-ticket baseline: train, cut the smallest weights, rewind to the pre-trained ones."""

import io
import math
import pickle
from collections.abc import Callable

import torch
from transformers import PreTrainedModel

from tune_tickets.errors import StoreError
from tune_tickets.methods.sections import Imp
from tune_tickets.models.matrices import weight_matrices
from tune_tickets.tickets.unstructured import UnstructuredMask
from tune_tickets.tickets.unstructured_drawing import draw_unstructured, magnitudes
from tune_tickets.training.batches import Batches, EncodedRows
from tune_tickets.training.loop import Recipe, train
from tune_tickets.training.losses import cross_entropy
from tune_tickets.training.schedule import build_optimizer, total_steps
from tune_tickets.training.state import TrainState

ROUND_SHARE = 0.1
"""Share of the original weights that a round cuts in the papers."""


class Search:
    """An IMP that can be left after any step and taken up again; `model` is the pre-trained one.

    `masks` are the tickets after each round, the last of them the search's result. Every round trains with the same
    seed, so it is the retraining of the ticket before it.
    """

    def __init__(
        self, method: Imp, model: PreTrainedModel, rows: EncodedRows, seed: int, device: torch.device | str
    ) -> None:
        self.rounds = sparsities(method.sparsity, method.rounds)
        self.masks: list[UnstructuredMask] = []
        self.losses: list[float] = []
        self._method = method
        self._weights = {name: linear.weight for name, linear in weight_matrices(model).items()}
        self._start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        self._losses = torch.zeros((), device=device)
        batches = Batches(rows, method.batch_size, seed, device)
        self.recipe = Recipe(
            batches=batches,
            loss=cross_entropy,
            adversary=method.adversary,
            total_steps=total_steps(batches.steps_per_epoch, method.epochs),
            warmup=method.warmup,
            clip=method.clip,
            seed=seed,
        )
        self.state = self._fresh_state(model)

    @property
    def mask(self) -> UnstructuredMask:
        """The ticket that is trained in the current round, or the last one when all rounds are done."""
        if self.masks:
            return self.masks[-1]
        return UnstructuredMask.full({name: tuple(weight.shape) for name, weight in self._weights.items()})

    def run(self, on_round: Callable[[], None], on_step: Callable[[int], None]) -> None:
        """Go through the rounds that are left; `on_step` gets the steps done in all rounds.

        At `on_round` the model is rewound already. At the end it holds the pre-trained weights, unfolded.
        """
        while len(self.masks) < len(self.rounds):
            done = len(self.masks) * self.recipe.total_steps
            with self.mask.hold(self._weights):
                for step, loss in train(self.state, self.recipe):
                    self._losses = self._losses + loss
                    on_step(done + step)
            self._end_round()
            on_round()

    def to_bytes(self) -> bytes:
        """What is needed to go on."""
        stream = io.BytesIO()
        content = {
            "masks": [mask.to_bytes() for mask in self.masks],
            "losses": self.losses,
            "sum": self._losses,
            "state": self.state.to_bytes(),
        }
        torch.save(content, stream)
        return stream.getvalue()

    def restore(self, checkpoint: bytes) -> None:
        """Go back to a checkpoint of the same search; after an error, build the search anew."""
        try:
            # weights_only: a checkpoint can hold numbers, never code.
            content = torch.load(io.BytesIO(checkpoint), map_location=self._losses.device, weights_only=True)
            self.masks = [UnstructuredMask.from_bytes(mask) for mask in content["masks"]]
            self.losses, self._losses = content["losses"], content["sum"]
            state = content["state"]
        except (RuntimeError, ValueError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
            raise StoreError(
                f"a checkpoint of IMP cannot be read ({error}); delete it and the search starts afresh"
            ) from error
        self.state.restore(state)

    def _end_round(self) -> None:
        sparsity = self.rounds[len(self.masks)]
        self.masks.append(draw_unstructured(magnitudes(self._weights), sparsity, self._method.ranking, self.mask))
        self.losses.append(float(self._losses) / self.recipe.total_steps)
        self._losses = torch.zeros_like(self._losses)
        self.state.model.load_state_dict(self._start)
        self.state = self._fresh_state(self.state.model)

    def _fresh_state(self, model: PreTrainedModel) -> TrainState:
        return TrainState(model, build_optimizer(model, self._method.learning_rate, self._method.weight_decay))


def sparsities(target: float, rounds: int | None) -> tuple[float, ...]:
    """The sparsity after each round, the last of which is the target.

    A number of rounds cuts the same share of the weights left in each: after k of n rounds (1 - target)^(k/n) are left.
    None cuts 10% of the original weights a round, so that searches for different targets begin alike.
    """
    if rounds is not None:
        before = tuple(1 - (1 - target) ** (number / rounds) for number in range(1, rounds))
    else:
        count = math.ceil(round(target / ROUND_SHARE, 6))
        before = tuple(round(ROUND_SHARE * number, 6) for number in range(1, count))
    return (*before, target)
