"""The hosts of devices: a table with a source for each row, and what a request says instead."""

from __future__ import annotations

import csv
from importlib.resources import files

import pytest

from solver.cluster.cluster import cluster_from_request
from solver.cluster.device import devices
from solver.request import Cluster

ROWS = list(
    csv.DictReader(files("solver.cluster").joinpath("hosts.csv").read_text("utf-8").splitlines())
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["name"]))
def test_a_row_is_of_a_known_device_and_names_its_source(row: dict[str, str]) -> None:
    assert row["name"] == "*" or row["name"] in devices()
    assert int(row["devices_per_link"]) >= 1
    assert float(row["memory_gb"]) > 0
    assert row["source"]


def test_devices_behind_one_link_share_it_and_a_request_overrules() -> None:
    asked = Cluster(device="H100-SXM5-80GB", nodes=1, devices_per_node=8)
    usual = cluster_from_request(asked).host
    assert usual is not None
    nominal = devices()["H100-SXM5-80GB"].host_bytes_per_second
    assert nominal is not None
    assert usual.bytes_per_second == nominal / 2
    assert not usual.stated
    told = cluster_from_request(asked.model_copy(update={"host_bytes_per_second": 4e10})).host
    assert told is not None
    assert told.bytes_per_second == 4e10
    assert told.memory_bytes == usual.memory_bytes
    assert told.stated == {"bytes_per_second"}
