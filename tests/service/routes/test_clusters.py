"""Clusters over HTTP: imported, listed, named by plans, replaced."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

from tests.service.conftest import asking
from tests.solver.cluster.topologies import text

TREE = {
    "name": "prod",
    "files": [{"content": text("slurm_topology_tree.conf")}],
    "device": "H100-SXM5-80GB",
    "devices_per_node": 8,
}


def named(**fields: Any) -> dict[str, Any]:
    return {**asking("quick"), "cluster": {"name": "prod", **fields}}


def plan_id(service: TestClient, request: dict[str, Any]) -> str:
    answer = service.post("/v1/plans", json=request)
    assert answer.status_code in (200, 202), answer.text
    return str(answer.json()["id"])


def test_an_imported_cluster_can_be_read_listed_and_removed(service: TestClient) -> None:
    imported = service.post("/v1/clusters", json=TREE)
    assert imported.status_code == 201
    document = imported.json()
    assert (document["nodes"], document["leafs"], document["spines"]) == (32, 4, 2)
    assert any("states no rate" in note for note in document["assumed"])
    assert service.get("/v1/clusters/prod").json() == document
    assert [c["name"] for c in service.get("/v1/clusters").json()["clusters"]] == ["prod"]
    assert service.post("/v1/clusters", json=TREE).status_code == 200
    assert service.delete("/v1/clusters/prod").status_code == 204
    assert service.get("/v1/clusters/prod").status_code == 404


def test_a_plan_that_names_a_cluster_is_the_plan_of_its_content(service: TestClient) -> None:
    service.post("/v1/clusters", json=TREE)
    by_name = plan_id(service, named(nodes=8))
    spelt_out = asking("quick")
    spelt_out["cluster"]["inter_node_bytes_per_second"] = 5e10
    assert by_name == plan_id(service, spelt_out)


def test_replacing_a_cluster_changes_the_plans_that_name_it(service: TestClient) -> None:
    service.post("/v1/clusters", json=TREE)
    before = plan_id(service, named())
    service.post("/v1/clusters", json={**TREE, "inter_node_bytes_per_second": 2.5e10})
    assert plan_id(service, named()) != before


def test_leafs_of_a_stored_cluster_count_where_their_uplinks_are_oversubscribed(
    service: TestClient,
) -> None:
    service.post("/v1/clusters", json={**TREE, "oversubscription": 3.0})
    spelt_out = asking("quick")
    spelt_out["cluster"] |= {"nodes": 32, "inter_node_bytes_per_second": 5e10}
    bare = plan_id(service, spelt_out)
    spelt_out["cluster"]["switches"] = [{"nodes": 8, "oversubscription": 3.0}]
    assert plan_id(service, named()) == plan_id(service, spelt_out) != bare


def test_unknown_clusters_and_too_many_nodes_are_refused(service: TestClient) -> None:
    missing = service.post("/v1/plans", json=named())
    assert missing.status_code == 404
    assert missing.json()["field"] == "cluster.name"
    service.post("/v1/clusters", json=TREE)
    refused = service.post("/v1/plans", json=named(nodes=33))
    assert refused.status_code == 422
    assert refused.json()["field"] == "cluster.nodes"


def test_a_broken_file_is_refused_with_its_number_and_line(service: TestClient) -> None:
    broken = {**TREE, "files": [TREE["files"][0], {"content": "SwitchName=a Nodes=n[1-"}]}  # type: ignore[index]
    answer = service.post("/v1/clusters", json=broken)
    assert answer.status_code == 422
    assert answer.json()["field"] == "files[1]"
    assert answer.json()["detail"].startswith("Line 1: ")
    assert service.get("/v1/clusters").json() == {"clusters": []}
