"""Capacity for a stage on a cluster: what exists, what the autoscaler can add, and what is impossible."""

import pytest

from tune_tickets.config.search import Resources
from tune_tickets.errors import ResourceError
from tune_tickets.search.session import NodeGroup, Room, addable

HEAD = {"CPU": 4.0}
CONFIG = {
    "max_workers": 4,
    "head_node_type": "head",
    "available_node_types": {
        "head": {"resources": {"CPU": 4}, "max_workers": 0},
        "gpu": {"resources": {"CPU": 8, "GPU": 1}, "max_workers": 4},
    },
}


def test_a_search_says_what_it_waits_for():
    room = Room((HEAD,), {"CPU": 3.0}, addable(CONFIG, nodes=1))
    said = room.describe(Resources(cpus=1, gpus=1))
    assert said == (
        "Cluster of 1 node, free for up to 0 stages now. "
        "A stage needs 1 CPU, 3 free, autoscaler may add 32; needs 1 GPU, 0 free, autoscaler may add 4"
    )


def test_workers_that_are_up_can_not_come_again():
    assert addable(CONFIG, nodes=1) == (NodeGroup({"CPU": 8, "GPU": 1}, 4),)
    assert addable(CONFIG, nodes=4) == (NodeGroup({"CPU": 8, "GPU": 1}, 1),)
    assert addable({}, nodes=3) == (), "a cluster without an autoscaler"


def test_a_kind_without_a_bound_of_its_own_has_that_of_the_cluster():
    config = {"max_workers": 3, "head_node_type": "head", "available_node_types": {"any": {"resources": {"CPU": 2}}}}
    assert addable(config, nodes=1) == (NodeGroup({"CPU": 2}, 3),)


def test_fractions_of_a_gpu_share_a_node():
    node = {"CPU": 8.0, "GPU": 1.0}
    said = Room((node, node), {"CPU": 9.0, "GPU": 1.3}, ()).describe(Resources(cpus=1, gpus=0.1))
    assert said.startswith("Cluster of 2 nodes, free for up to 9 stages now.")
    assert "needs 0.1 GPU, 1.3 free, no autoscaler adds any" in said


@pytest.mark.parametrize(
    ("resources", "coming"),
    [
        (Resources(gpus=2), "the autoscaler may add nodes of 8 CPU and 1 GPU"),
        (Resources(cpus=16), "the autoscaler may add nodes of 8 CPU"),
    ],
)
def test_what_fits_on_no_node_is_refused_with_all_there_is(resources, coming):
    room = Room((HEAD,), HEAD, addable(CONFIG, nodes=1))
    with pytest.raises(ResourceError, match=r"a stage asks for .* on one node; the cluster has nodes of 4 CPU") as told:
        room.check(resources)
    assert coming in str(told.value)
    assert "Lower resources.cpus or resources.gpus" in str(told.value)


def test_two_small_nodes_are_not_one_large():
    with pytest.raises(ResourceError, match="no autoscaler adds any"):
        Room((HEAD, HEAD), HEAD, ()).check(Resources(cpus=8))


def test_what_fits_is_let_through_whether_it_is_there_or_may_come():
    there, to_come = Room((HEAD,), {}, ()), Room((HEAD,), HEAD, addable(CONFIG, nodes=1))
    there.check(Resources(cpus=4))
    to_come.check(Resources(cpus=8, gpus=1))
    for room, more in ((there, Resources(cpus=5)), (to_come, Resources(cpus=9, gpus=1))):
        with pytest.raises(ResourceError):
            room.check(more)


def test_a_full_autoscaler_adds_nothing():
    with pytest.raises(ResourceError, match="asks for 1 CPU and 1 GPU"):
        Room((HEAD,), HEAD, addable(CONFIG, nodes=5)).check(Resources(gpus=1))


def test_an_autoscaler_that_cannot_be_seen_gets_the_benefit_of_the_doubt():
    room = Room((HEAD,), HEAD, None)
    room.check(Resources(gpus=1))
    assert "needs 1 GPU, 0 free, it is not known what an autoscaler may add" in room.describe(Resources(gpus=1))
