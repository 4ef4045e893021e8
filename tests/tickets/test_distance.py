from functools import partial

import pytest
import torch

from tune_tickets.errors import StoreError
from tune_tickets.tickets.distance import MaskDistance, Trajectory, distances, find_stop, mask_distance
from tune_tickets.tickets.drawing import draw
from tune_tickets.tickets.mask import StructuredMask

# One layer of 4 heads and 4 neurons, of which one each is cut: the mask is the place of the smallest score.
DRAW_ONE = partial(draw, heads=0.25, neurons=0.25)


def trajectory(smallest_heads: list[int], smallest_neurons: list[int]) -> Trajectory:
    path = Trajectory.empty(layers=1, heads=4, neurons=4)
    for head, neuron in zip(smallest_heads, smallest_neurons, strict=True):
        scores = torch.ones(2, 1, 4)
        scores[0, 0, head] = scores[1, 0, neuron] = 0.5
        path = path.extended(scores[0], scores[1])
    return path


def test_the_distance_is_the_share_of_differing_entries():
    first = StructuredMask(torch.tensor([[True, True, False, True]]), torch.ones(1, 10, dtype=torch.bool))
    second = StructuredMask(torch.tensor([[True, False, True, True]]), torch.ones(1, 10, dtype=torch.bool))
    second.neurons[0, :3] = False
    assert mask_distance(first, second) == MaskDistance(heads=0.5, neurons=0.3)
    assert mask_distance(second, first) == mask_distance(first, second)
    assert mask_distance(first, first) == MaskDistance(0.0, 0.0)


def test_distances_are_between_neighbours_and_never_against_the_start():
    assert distances(trajectory([3, 2, 2], [0, 0, 1]), DRAW_ONE) == (MaskDistance(0.5, 0.0), MaskDistance(0.0, 0.5))
    assert distances(trajectory([0], [0]), DRAW_ONE) == ()
    assert distances(Trajectory.empty(1, 4, 4), DRAW_ONE) == ()


def test_the_search_stops_when_both_kinds_were_stable_in_a_row():
    # Heads are stable from 2 on, neurons from 3 on: distances 3-4 and 4-5 are the first two of both.
    path = trajectory([1, 2, 2, 2, 2, 0], [0, 0, 3, 3, 3, 3])
    stop = find_stop(path, DRAW_ONE, gamma=0.1, patience=2)
    assert stop is not None
    assert stop.mini_epoch == 5
    assert stop.distances == tuple(MaskDistance(*pair) for pair in [(0.5, 0), (0, 0.5), (0, 0), (0, 0)])


def test_one_unstable_kind_starts_the_count_again():
    path = trajectory([0, 0, 0, 0, 0, 0], [1, 1, 2, 2, 2, 2])
    stop = find_stop(path, DRAW_ONE, gamma=0.1, patience=3)
    assert stop is not None
    assert stop.mini_epoch == 6
    assert find_stop(path, DRAW_ONE, gamma=0.1, patience=4) is None


def test_patience_one_needs_two_mini_epochs():
    assert find_stop(trajectory([0], [0]), DRAW_ONE, gamma=0.1, patience=1) is None
    stop = find_stop(trajectory([0, 0], [0, 0]), DRAW_ONE, gamma=0.1, patience=1)
    assert stop is not None
    assert stop.mini_epoch == 2


def test_a_distance_equal_to_gamma_is_not_smaller():
    path = trajectory([0, 1], [0, 0])
    assert find_stop(path, DRAW_ONE, gamma=0.5, patience=1) is None
    assert find_stop(path, DRAW_ONE, gamma=0.5000001, patience=1) is not None
    assert find_stop(trajectory([0, 0], [0, 0]), DRAW_ONE, gamma=0.0, patience=1) is None


def test_a_longer_trajectory_does_not_move_the_stop():
    heads, neurons = [1, 2, 2, 2, 0, 1, 2], [0, 0, 0, 0, 1, 2, 3]
    whole = find_stop(trajectory(heads, neurons), DRAW_ONE, gamma=0.1, patience=2)
    prefix = find_stop(trajectory(heads[:4], neurons[:4]), DRAW_ONE, gamma=0.1, patience=2)
    assert whole == prefix
    assert find_stop(trajectory(heads[:3], neurons[:3]), DRAW_ONE, gamma=0.1, patience=2) is None


def test_masks_are_drawn_at_the_mini_epoch_asked_for():
    path = trajectory([3, 2], [0, 1])
    assert path.mask(1, DRAW_ONE).heads.tolist() == [[True, True, True, False]]
    assert path.mask(2, DRAW_ONE).neurons.tolist() == [[True, False, True, True]]


def test_bytes_bring_the_trajectory_back():
    path = trajectory([3, 2], [0, 1])
    again = Trajectory.from_bytes(path.to_bytes())
    assert torch.equal(again.heads, path.heads)
    assert torch.equal(again.neurons, path.neurons)
    assert len(again) == 2
    assert len(Trajectory.from_bytes(Trajectory.empty(1, 4, 4).to_bytes())) == 0
    with pytest.raises(StoreError, match="not a stored trajectory"):
        Trajectory.from_bytes(path.to_bytes()[:-1])


def test_extending_copies_the_scores():
    scores = torch.ones(1, 4, requires_grad=True)
    path = Trajectory.empty(1, 4, 4).extended(scores, scores)
    with torch.no_grad():
        scores.fill_(7.0)
    assert path.heads.max() == 1.0
    assert not path.heads.requires_grad
