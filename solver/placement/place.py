"""The door: a plan and free nodes in, nodes in rank order out, and what other sets are worth."""

from __future__ import annotations

import difflib
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from solver.cluster.cluster import Cluster, cluster_from_request
from solver.cluster.imported import usable_nodes
from solver.cluster.readers.read import read_topology
from solver.cluster.topology import Node
from solver.errors import BadRequest, part_of_request
from solver.layouts import Layout
from solver.placement.crossing import crossing_bytes, distinct, patterns
from solver.placement.decide import decided
from solver.placement.documents import (
    FreeNode,
    PlacedNode,
    PlacementAnswer,
    PlacementRequest,
    Score,
    Spreads,
)
from solver.placement.grid import Grid, grid_of
from solver.placement.least import least_costs, least_crossing
from solver.placement.words import words
from solver.question import question
from solver.strict import named_once

Index = npt.NDArray[np.int64]


def place(request: PlacementRequest) -> PlacementAnswer:
    """Nodes for a plan, crossing as few leafs as can be.

    Raises:
        BadRequest: The layout is not decided, the cluster is not described, a node is named twice,
            or a candidate names a node that is not free.
    """
    started = time.monotonic()
    request = _with_nodes(request)
    layout, grid, cluster = _grid(request)
    _check_names(request)
    fabric = _Fabric(request.nodes, grid)
    scores = _scores(request, grid)
    if fabric.capacities.sum() < grid.cells:
        return PlacementAnswer(
            status="infeasible",
            unit_nodes=grid.unit,
            scores=scores,
            error=f"The plan needs {grid.cells} times {grid.unit} nodes that are together; the "
            f"free nodes have {int(fabric.capacities.sum())}.",
        )
    leafs, lower = decided(grid, fabric.capacities, started + request.time_limit_seconds)
    crossing = float(crossing_bytes(grid, leafs[None])[0])
    lower = min(lower, crossing)
    names = fabric.nodes_of(leafs)
    per_node = cluster.devices_per_node
    return PlacementAnswer(
        status="succeeded",
        nodes=[_placed(layout, node, i, per_node) for i, node in enumerate(names)],
        crossing_bytes=crossing,
        lower_bound_bytes=lower,
        gap=1.0 - lower / crossing if crossing > 0 else 0.0,
        spreads=_spreads(leafs),
        unit_nodes=grid.unit,
        words=words(layout, grid, names, per_node, request.leaf_label),
        scores=scores,
        seconds=time.monotonic() - started,
        notes=_notes(layout, cluster),
    )


def _with_nodes(request: PlacementRequest) -> PlacementRequest:
    """The request with the nodes of its cluster's topology where it names none."""
    if request.nodes:
        return request
    asked = request.job.cluster
    if asked.topology is None:
        raise BadRequest(
            "There is no node to place the plan on.",
            field="nodes",
            hint="Name the free nodes, or give the job's cluster by its topology or as a stored "
            "one.",
        )
    return request.model_copy(
        update={"nodes": free_nodes(usable_nodes(read_topology(asked.topology), asked))}
    )


def free_nodes(nodes: Iterable[Node]) -> list[FreeNode]:
    """The nodes of a topology as places for a plan."""
    return [
        FreeNode(name=node.name, leaf=node.leaf or "leaf", spine=node.spine, domain=node.domain)
        for node in nodes
    ]


def _grid(request: PlacementRequest) -> tuple[Layout, Grid, Cluster]:
    with part_of_request("job"):
        asked = question(request.job)
    if len({(x.tensor_parallel, x.pipeline_parallel, x.data_parallel) for x in asked.layouts}) > 1:
        raise BadRequest(
            "A placement is of a plan, whose layout is decided.",
            field="job.layout",
            hint="Copy the plan's `layout` into the request.",
        )
    layout = asked.layouts[0]
    cluster = cluster_from_request(request.job.cluster)
    costs = asked.costs(layout)
    return layout, grid_of(layout, costs, cluster.devices_per_node, cluster.domain_size), cluster


def _check_names(request: PlacementRequest) -> None:
    named_once((f"nodes[{i}].name", node.name) for i, node in enumerate(request.nodes))
    free = {node.name for node in request.nodes}
    for number, candidate in enumerate(request.candidates):
        places = [(f"candidates[{number}][{i}]", name) for i, name in enumerate(candidate)]
        named_once(places)
        for place, name in places:
            if name not in free:
                raise BadRequest(
                    f"The node {name!r} is not among the free nodes.",
                    field=place,
                    hint=_nearest(name, free),
                )


def _nearest(name: str, free: Collection[str]) -> str:
    """Which node was probably meant, or where those stand that could be."""
    close = difflib.get_close_matches(name, free, n=1)
    return f"Did you mean {close[0]}?" if close else "Name nodes that stand in `nodes`."


class _Fabric:
    """Free nodes by leaf, each leaf's in whole cells of nodes that share a domain."""

    def __init__(self, nodes: Sequence[FreeNode], grid: Grid) -> None:
        by_leaf: dict[str, list[FreeNode]] = defaultdict(list)
        for node in sorted(nodes, key=lambda node: (node.spine or "", node.leaf)):
            by_leaf[node.leaf].append(node)
        self._unit = grid.unit
        self._cells = [_cells(inside, grid.unit) for inside in by_leaf.values()]
        self.capacities: Index = np.array([len(cells) for cells in self._cells], dtype=np.int64)

    def nodes_of(self, leafs: Index) -> list[FreeNode]:
        """The nodes in rank order of an assignment of shape (rows, stages)."""
        left = [iter(cells) for cells in self._cells]
        return [
            node for leaf in leafs.T.ravel() for node in next(left[int(leaf)])
        ]  # stage by stage, row by row


def _cells(nodes: list[FreeNode], unit: int) -> list[list[FreeNode]]:
    """The nodes of one leaf in groups of ``unit`` from one domain each."""
    domains: dict[str, list[FreeNode]] = defaultdict(list)
    for node in nodes:
        domains[node.domain or ("" if unit > 1 else node.name)].append(node)
    return [
        inside[start : start + unit]
        for inside in domains.values()
        for start in range(0, len(inside) - unit + 1, unit)
    ]


def _scores(request: PlacementRequest, grid: Grid) -> list[Score]:
    """Every candidate's crossing under the best orderly filling, and its bound, all at once."""
    if not request.candidates:
        return []
    place_of = {node.name: node for node in request.nodes}
    number = {leaf: i for i, leaf in enumerate(dict.fromkeys(n.leaf for n in request.nodes))}
    table = np.zeros((len(request.candidates), len(number)), dtype=np.int64)
    for row, candidate in enumerate(request.candidates):
        for leaf, cells in _counted((place_of[name] for name in candidate), grid.unit).items():
            table[row, number[leaf]] = cells
    best, _ = patterns(grid, table)
    bounds = least_crossing(grid, least_costs(grid, int(table.max())), table)
    touched = (table > 0).sum(axis=1)
    return [
        Score(
            fits=bool(np.isfinite(cost)),
            crossing_bytes=float(cost) if np.isfinite(cost) else None,
            lower_bound_bytes=min(float(bound), float(cost)) if np.isfinite(cost) else None,
            leafs=int(leafs),
        )
        for cost, bound, leafs in zip(best, bounds, touched, strict=True)
    ]


def _counted(nodes: Iterable[FreeNode], unit: int) -> dict[str, int]:
    """Cells on each leaf."""
    if unit == 1:
        return Counter(node.leaf for node in nodes)
    domains = Counter((node.leaf, node.domain) for node in nodes)
    counted: Counter[str] = Counter()
    for (leaf, _), count in domains.items():
        counted[leaf] += count // unit
    return counted


def _placed(layout: Layout, node: FreeNode, position: int, per_node: int) -> PlacedNode:
    first = position * per_node
    ranks = range(first, min(first + per_node, layout.devices))
    inner = layout.tensor_parallel * layout.context_parallel
    stage = inner * layout.data_parallel
    return PlacedNode(
        name=node.name,
        leaf=node.leaf,
        first_rank=first,
        stages=sorted({rank // stage for rank in ranks}),
        replicas=sorted({rank % stage // inner for rank in ranks}),
    )


def _spreads(leafs: Index) -> Spreads:
    touched = distinct(leafs[None])[0]
    return Spreads(
        leafs=len(np.unique(leafs)),
        data_parallel_most=int(touched.max()),
        data_parallel_mean=float(touched.mean()),
        pipeline_crossings=int((leafs[:, 1:] != leafs[:, :-1]).sum()),
    )


def _notes(layout: Layout, cluster: Cluster) -> list[str]:
    notes = []
    if layout.tensor_parallel > cluster.domain_size:
        notes.append("Tensor-parallel groups are larger than an NVLink domain of the device.")
    if layout.virtual_stages > 1:
        notes.append("The way from the last stage back to the first is not counted.")
    return notes
