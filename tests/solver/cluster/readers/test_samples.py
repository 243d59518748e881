"""Every sample is understood, survives the own form, and breaks with a line and a reason."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.cluster.readers import own
from solver.cluster.readers.broken import BrokenFile
from solver.cluster.readers.read import FORMATS, read_topology
from solver.errors import StagecutError, UnknownName
from tests.solver.cluster.topologies import text

# file, format, nodes, leafs, spines, NVLink domains beyond a node
SAMPLES = [
    ("slurm_topology_tree.conf", "slurm-topology-conf", 32, 4, 2, 0),
    ("slurm_topology_block.conf", "slurm-topology-conf", 72, 4, 0, 0),
    ("slurm_topology.yaml", "slurm-topology-yaml", 32, 4, 2, 0),
    ("slurm_scontrol_nodes.json", "slurm-nodes-json", 5, 0, 0, 0),
    ("k8s_nodes_gke_a3.json", "kubernetes-nodes", 4, 2, 1, 0),
    ("k8s_nodes_aws_p5.json", "kubernetes-nodes", 4, 2, 1, 0),
    ("k8s_nodes_topograph.json", "kubernetes-nodes", 4, 2, 1, 2),
    ("volcano_hypernodes.yaml", "volcano-hypernodes", 4, 2, 1, 0),
    ("topograph_graph.json", "topograph", 6, 2, 1, 2),
    ("nvidia_smi_topo_h100_sxm.txt", "nvidia-smi-topo", 1, 0, 0, 0),
    ("nvidia_smi_topo_pcie.txt", "nvidia-smi-topo", 1, 0, 0, 0),
    ("nvidia_smi_topo_2xnvlink_bridge.txt", "nvidia-smi-topo", 1, 0, 0, 0),
    ("nccl_topo_h100.xml", "nccl-xml", 1, 0, 0, 0),
    ("ascend_rank_table.json", "ascend-rank-table", 2, 0, 0, 1),
]


@pytest.mark.parametrize(("name", "format", "nodes", "leafs", "spines", "domains"), SAMPLES)
def test_a_sample_is_understood_whether_or_not_its_format_is_told(
    name: str, format: str, nodes: int, leafs: int, spines: int, domains: int
) -> None:
    topology = read_topology(text(name))
    assert topology == read_topology(text(name), format)
    assert topology.formats == (format,)
    assert len(topology.nodes) == nodes
    assert len(topology.leafs) == leafs
    assert len(topology.spines) == spines
    assert len(topology.domains) == domains


@pytest.mark.parametrize("name", [sample[0] for sample in SAMPLES])
def test_a_sample_survives_the_way_through_the_own_form(name: str) -> None:
    topology = read_topology(text(name))
    document = json.loads(own.write(topology).model_dump_json())
    assert read_topology(document) == topology


def test_every_format_has_a_sample() -> None:
    assert {sample[1] for sample in SAMPLES} | {own.FORMAT} == set(FORMATS)


def test_a_part_of_a_yaml_file_is_taken_by_name() -> None:
    topology = read_topology(text("slurm_topology.yaml"), part="nvl72")
    assert [node.name for node in topology.nodes][:2] == ["node1101", "node1102"]
    assert topology.leafs == ("nvl-1-1", "nvl-1-2")


def test_nodes_that_are_down_are_not_available() -> None:
    topology = read_topology(text("slurm_scontrol_nodes.json"))
    assert [node.name for node in topology.nodes if not node.available] == ["gpu005"]


def test_members_by_label_are_found_where_the_nodes_are_in_the_file() -> None:
    node = (
        "\n---\nkind: Node\nmetadata:\n  name: node4\n  labels: {volcano.sh/hypernode: s2}\n"
        'status: {capacity: {nvidia.com/gpu: "8"}}\n'
    )
    topology = read_topology(text("volcano_hypernodes.yaml") + node)
    assert topology.leafs == ("s0", "s1", "s2")
    assert topology.nodes[-1].devices == 8


def test_the_network_cards_of_a_node_give_the_rate_of_a_device() -> None:
    # Four ConnectX-7 of 400 Gb/s for the four GPUs of the file.
    topology = read_topology(text("nccl_topo_h100.xml"))
    assert topology.inter_node_bytes_per_second == 4 * 400e9 / 8 / 4
    assert topology.nodes[0].device == "H100-SXM5-80GB"


def test_nvlink_bridges_join_pairs() -> None:
    topology = read_topology(text("nvidia_smi_topo_2xnvlink_bridge.txt"))
    assert topology.link_groups == ((0, 1), (2, 3))


def _cut(name: str, old: str, new: str) -> str:
    assert old in text(name)
    return text(name).replace(old, new, 1)


BROKEN = [
    ("SwitchName=a Nodes=n[1-\n", "slurm-topology-conf", "Line 1: This host list"),
    ("SwitchName=a Nodes=n1\nSwitchName=b Switches=c\n", None, "Line 2: b has c below it"),
    ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", None, "Line 2: a is described twice"),
    ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n", None, "Line 2: n1 hangs on a and b"),
    ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", None, "Line 1: a is below itself"),
    ("SwitchName=a Nodes=n1\nnonsense\n", None, "Line 2: 'nonsense' is not of the form"),
    (_cut("slurm_topology.yaml", "gpu[001-008]", "gpu[8-1]"), None, "Line 13: This host list"),
    (_cut("slurm_topology.yaml", "children: spine[1-2]", "children: ["), None, "Line "),
    (_cut("slurm_scontrol_nodes.json", "gpu:h100:8(S:0-1)", "gpu:h100:x"), None, "Line 39: The gr"),
    (text("slurm_scontrol_nodes.json")[:-40], None, "Line "),
    (_cut("k8s_nodes_aws_p5.json", '"nvidia.com/gpu.count": "8"', '"nvidia.com/gpu.count": "?"'),
     None, "Line 24: ip-10-0-0-10.ec2.internal has '?' devices"),
    (_cut("volcano_hypernodes.yaml", '"^node[23]$"', '"^node.*$"'), None, "Line 21: The members"),
    (_cut("topograph_graph.json", '"i-12"', '"i-11"'), None, "Line 4: The instance i-11"),
    (_cut("nvidia_smi_topo_pcie.txt", "GPU1\tPIX", "GPU1\tSYS"), None, "Line 3: GPU1 and GPU0"),
    (_cut("nvidia_smi_topo_pcie.txt", "PIX", "???"), None, "Line 2: '???'"),
    (_cut("nccl_topo_h100.xml", 'speed="400000"', 'speed="fast"'), None, "Line 6: <net>"),
    (_cut("nccl_topo_h100.xml", "</system>", ""), None, "Line "),
    ('<!DOCTYPE s [<!ENTITY a "b">]>\n<system>&a;</system>', None, "Line 1: A document type"),
    (_cut("ascend_rank_table.json", '"server_count": "2"', '"server_count": "3"'), None,
     "Line 4: `server_count` is 3"),
    ("a: &x [1]\nb: *x\n", None, "Line 2: This is not YAML: aliases"),
    ("", None, "Line 1: The file is empty"),
    ("[1, 2", "stagecut", "Line 1: "),
]  # fmt: skip


@pytest.mark.parametrize(("content", "format", "words"), BROKEN)
def test_a_broken_file_is_refused_with_its_line_and_a_reason(
    content: str, format: str | None, words: str
) -> None:
    with pytest.raises(BrokenFile) as raised:
        read_topology(content, format)
    assert raised.value.detail.startswith(words)


def test_an_unknown_format_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownName, match="nccl-xml"):
        read_topology("x", "lsf")


_VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["nodes", "meta", "items", "kind", "instances", "server_list", "device",
                         "name", "metadata", "spec", "members", "id", "gres"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(_VALUES)
@settings(max_examples=200, deadline=None)
def test_no_value_makes_a_reader_fail_otherwise_than_with_a_reason(value: Any) -> None:
    with contextlib.suppress(StagecutError):
        read_topology(value)


@given(st.sampled_from(SAMPLES), st.integers(0, 5000), st.text(max_size=3))
@settings(max_examples=200, deadline=None)
def test_no_damage_makes_a_reader_fail_otherwise_than_with_a_reason(
    sample: tuple[str, str, int, int, int, int], place: int, inserted: str
) -> None:
    whole = text(sample[0])
    place %= len(whole)
    with contextlib.suppress(StagecutError):
        read_topology(whole[:place] + inserted + whole[place + 2 :], sample[1])
