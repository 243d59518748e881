"""Clusters from requests: what is missing is named, what is stated counts."""

from __future__ import annotations

from typing import Any

import pytest

from solver.cluster.cluster import FabricBasis, cluster_from_request, memory_capacity
from solver.cluster.device import device
from solver.errors import BadRequest
from solver.request import Cluster
from tests.solver.published import published_requests

H100 = {"device": "H100-SXM5-80GB", "nodes": 8, "devices_per_node": 8}


def test_memory_and_network_default_to_the_devices() -> None:
    cluster = cluster_from_request(Cluster(**H100))
    assert cluster.devices == 64
    assert cluster.memory_bytes == device("H100-SXM5-80GB").memory_bytes
    assert cluster.inter_node_bytes_per_second == 50e9
    assert cluster.fabric_basis is FabricBasis.DEVICE_DEFAULT


def test_stated_memory_and_bandwidth_win_over_text_and_text_over_the_device() -> None:
    texted = cluster_from_request(Cluster(**H100, fabric="8x200G"))
    assert (texted.inter_node_bytes_per_second, texted.fabric_basis) == (25e9, "fabric text")
    stated = cluster_from_request(
        Cluster(**H100, fabric="8x200G", inter_node_bytes_per_second=12e9, memory_bytes=70e9)
    )
    assert (stated.inter_node_bytes_per_second, stated.fabric_basis) == (12e9, "request")
    assert stated.memory_bytes == 70e9


def test_an_unreadable_fabric_leaves_the_devices_usual_share() -> None:
    cluster = cluster_from_request(Cluster(**H100, fabric="some very fast cables"))
    assert cluster.inter_node_bytes_per_second == 50e9


@pytest.mark.parametrize(
    ("name", "nodes", "per_node", "domain"),
    [
        ("H100-SXM5-80GB", 8, 8, 8),
        ("GB200-NVL72", 64, 4, 72),
        ("GB200-NVL72", 4, 4, 16),
        ("A100-PCIe-80GB", 2, 8, 8),
        ("H100-SXM5-80GB", 2, 16, 16),
        ("H100-SXM5-80GB", 4, 3, 6),
    ],
)
def test_the_fast_domain_is_whole_nodes(name: str, nodes: int, per_node: int, domain: int) -> None:
    asked = Cluster(device=name, nodes=nodes, devices_per_node=per_node)
    assert cluster_from_request(asked).domain_size == domain


@pytest.mark.parametrize("missing", ["device", "nodes", "devices_per_node"])
def test_a_missing_field_is_named(missing: str) -> None:
    fields: dict[str, Any] = {name: value for name, value in H100.items() if name != missing}
    with pytest.raises(BadRequest) as error:
        cluster_from_request(Cluster(**fields))
    assert error.value.field == f"cluster.{missing}"


@pytest.mark.parametrize("form", [{"name": "blue"}, {"topology": {"nodes": []}}])
def test_forms_that_cannot_be_read_yet_say_so(form: dict[str, Any]) -> None:
    (name,) = form
    for read in (cluster_from_request, memory_capacity):
        with pytest.raises(BadRequest) as error:
            read(Cluster(**H100, **form))
        assert error.value.field == f"cluster.{name}"


def test_a_profile_needs_only_the_memory_of_its_devices() -> None:
    assert memory_capacity(Cluster(memory_bytes=5.0)) == 5.0
    assert memory_capacity(Cluster(device="Ascend-910A")) == 32e9
    with pytest.raises(BadRequest) as error:
        memory_capacity(Cluster())
    assert error.value.field == "cluster.memory_bytes"


def test_every_published_cluster_is_read() -> None:
    for request in published_requests():
        assert cluster_from_request(request.cluster).inter_node_bytes_per_second > 1e9
