"""From topologies to clusters: what a file says, what is asked for, and what is assumed."""

from __future__ import annotations

from typing import Any

import pytest

from solver.cluster.cluster import cluster_from_request
from solver.cluster.imported import described
from solver.cluster.readers.read import read_topology
from solver.cluster.topology import merged
from solver.errors import BadRequest
from solver.request import Cluster
from tests.solver.cluster.topologies import text


def asked(name: str, **fields: Any) -> Cluster:
    return Cluster.model_validate({"topology": text(name), **fields})


def test_a_file_that_says_all_needs_nothing_more() -> None:
    cluster = cluster_from_request(asked("k8s_nodes_gke_a3.json"))
    assert (cluster.device.name, cluster.nodes, cluster.devices_per_node) == (
        "H100-SXM5-80GB",
        4,
        8,
    )
    assert any("states no rate" in note for note in cluster.notes)


@pytest.mark.parametrize(
    ("fields", "missing"),
    [({}, "device"), ({"device": "H100-SXM5-80GB"}, "devices_per_node")],
)
def test_what_a_file_does_not_say_is_asked_for(fields: dict[str, Any], missing: str) -> None:
    with pytest.raises(BadRequest) as raised:
        described(asked("slurm_topology_tree.conf", **fields))
    assert raised.value.field == f"cluster.{missing}"


def test_what_the_caller_states_goes_before_the_file() -> None:
    one = asked("nccl_topo_h100.xml", nodes=2, inter_node_bytes_per_second=1e9)
    cluster = cluster_from_request(one)
    assert (cluster.nodes, cluster.devices_per_node) == (2, 4)
    assert cluster.inter_node_bytes_per_second == 1e9
    assert not any("states no rate" in note for note in cluster.notes)


def test_the_cards_of_the_file_go_before_the_catalogue() -> None:
    cluster = cluster_from_request(asked("nccl_topo_h100.xml"))
    assert cluster.inter_node_bytes_per_second == 50e9


def test_nodes_that_are_down_do_not_count() -> None:
    cluster = cluster_from_request(asked("slurm_scontrol_nodes.json", device="H100-SXM5-80GB"))
    assert cluster.nodes == 4
    assert any("1 of 5 nodes" in note for note in cluster.notes)


def test_more_nodes_than_there_are_is_refused() -> None:
    with pytest.raises(BadRequest, match="Give at most 4"):
        described(asked("k8s_nodes_gke_a3.json", nodes=5))


def test_a_name_is_for_a_service_to_know() -> None:
    with pytest.raises(BadRequest, match="--server"):
        described(Cluster(name="production"))


def test_fabric_and_inventory_are_joined_by_name() -> None:
    fabric = read_topology(text("slurm_topology_tree.conf"))
    inventory = read_topology(text("slurm_scontrol_nodes.json"))
    inside = read_topology(text("nccl_topo_h100.xml"))
    whole = merged([fabric, inventory])
    assert len(whole.nodes) == 32
    assert whole.nodes[0].leaf == "leaf1"
    assert whole.nodes[0].devices == 8
    assert not whole.nodes[4].available
    assert any("27 of 32" in note for note in whole.notes)
    assert merged([fabric, inside]).nodes[31].device == "H100-SXM5-80GB"


def test_files_of_two_clusters_are_not_joined() -> None:
    with pytest.raises(BadRequest, match="no node in common"):
        merged([read_topology(text(f"k8s_nodes_{name}.json")) for name in ("gke_a3", "aws_p5")])
