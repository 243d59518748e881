"""A placement in the words of Slurm, Kueue, Volcano and Open MPI.

Sources: Slurm, sbatch(1) and srun(1) (`--switches`, `--segment`, `--distribution=arbitrary` with
SLURM_HOSTFILE); Kueue, Topology Aware Scheduling (podset annotations); Volcano, Network Topology
Aware Scheduling (`networkTopology`, `partitionPolicy`); Open MPI, mpirun(1), rankfiles.
"""

from __future__ import annotations

from solver.layouts import Layout
from solver.placement.documents import FreeNode, SchedulerWords
from solver.placement.grid import Grid


def words(
    layout: Layout, grid: Grid, nodes: list[FreeNode], devices_per_node: int, leaf_label: str
) -> SchedulerWords:
    """What each scheduler is to be told.

    A slice (partition, segment) is the longest run of consecutive nodes in rank order of which
    every one lies on one leaf: what a scheduler must keep together to keep the placement's worth.
    """
    slice_nodes = _slice(grid, nodes)
    leafs = len({node.leaf for node in nodes})
    ranks = [
        (rank, nodes[rank // devices_per_node].name, rank % devices_per_node)
        for rank in range(layout.devices)
    ]
    return SchedulerWords(
        slurm=[
            f"--nodes={len(nodes)}",
            f"--ntasks-per-node={min(devices_per_node, layout.devices)}",
            f"--switches={leafs}",
            f"--segment={slice_nodes}",
            f"--nodelist={','.join(node.name for node in nodes)}",
            "--distribution=arbitrary",
        ],
        kueue={
            "kueue.x-k8s.io/podset-preferred-topology": leaf_label,
            "kueue.x-k8s.io/podset-slice-required-topology": leaf_label,
            "kueue.x-k8s.io/podset-slice-size": str(slice_nodes),
        },
        volcano={
            "networkTopology": {"mode": "soft"}
            if leafs > 1
            else {
                "mode": "hard",
                "highestTierAllowed": 1,
            },
            "partitionPolicy": {
                "totalPartitions": len(nodes) // slice_nodes,
                "partitionSize": slice_nodes,
                "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
            },
        },
        rank_file="".join(f"rank {rank}={host} slot={slot}\n" for rank, host, slot in ranks),
        hosts="".join(f"{host}\n" for _, host, _ in ranks),
    )


def _slice(grid: Grid, nodes: list[FreeNode]) -> int:
    """The largest number that divides the nodes into runs on one leaf each."""
    for size in sorted(_divisors(len(nodes)), reverse=True):
        if size % grid.unit == 0 and all(
            len({node.leaf for node in nodes[start : start + size]}) == 1
            for start in range(0, len(nodes), size)
        ):
            return size
    return 1


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]
