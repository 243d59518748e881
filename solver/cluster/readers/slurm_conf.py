"""Slurm's ``topology.conf``: trees of switches, or blocks (man topology.conf(5))."""

from __future__ import annotations

import re

from solver.cluster.readers.broken import broken
from solver.cluster.readers.host_list import hosts
from solver.cluster.readers.switches import Switch, paths
from solver.cluster.topology import Node, Topology

FORMAT = "slurm-topology-conf"

_PAIR = re.compile(r"(\w+)\s*=\s*(\"[^\"]*\"|\S+)")
_TREE = {"switchname", "switches", "nodes", "linkspeed"}
_BLOCK = {"blockname", "nodes"}


def read(text: str) -> Topology:
    """The topology of the file; keywords in any case, comments and continued lines understood.

    Raises:
        BrokenFile: A line that is not understood, or a tree that is none.
    """
    trees, blocks = [], []
    for number, line in _lines(text):
        pairs = _pairs(line, number)
        if "switchname" in pairs:
            trees.append(_switch(pairs, number))
        elif "blockname" in pairs:
            blocks.append(_block(pairs, number))
        elif set(pairs) - {"blocksizes"}:
            raise broken(
                f"{line[:60]!r} names neither a switch nor a block.",
                number,
                "A line begins with SwitchName=, BlockName= or BlockSizes=.",
            )
    if trees and blocks:
        raise broken("A file describes switches or blocks, not both.", blocks[0].line)
    notes: tuple[str, ...] = ()
    if blocks:
        notes = ("Blocks count as leafs, and as NVLink domains where the device reaches so far.",)
    return Topology(
        nodes=tuple(Node(name, path) for name, path in paths(trees or blocks).items()),
        formats=(FORMAT,),
        notes=notes,
    )


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, each with its number; those that end in a backslash joined."""
    found: list[tuple[int, str]] = []
    continued = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        goes_on = line.endswith("\\")
        line = line.rstrip("\\").strip()
        if continued and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line}")
        elif line:
            found.append((number, line))
        continued = goes_on
    return found


def _pairs(line: str, number: int) -> dict[str, str]:
    pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
    rest = _PAIR.sub("", line).strip()
    if rest or not pairs:
        raise broken(f"{(rest or line)[:60]!r} is not of the form Key=Value.", number)
    return pairs


def _switch(pairs: dict[str, str], number: int) -> Switch:
    _only(pairs, _TREE, number)
    below, nodes = pairs.get("switches"), pairs.get("nodes")
    if (below is None) == (nodes is None):
        raise broken(f"{pairs['switchname']} needs either Switches or Nodes.", number)
    return Switch(
        pairs["switchname"],
        _hosts(below, number) if below else (),
        _hosts(nodes, number) if nodes else (),
        number,
    )


def _block(pairs: dict[str, str], number: int) -> Switch:
    _only(pairs, _BLOCK, number)
    if "nodes" not in pairs:
        raise broken(f"{pairs['blockname']} has no Nodes.", number)
    return Switch(pairs["blockname"], nodes=_hosts(pairs["nodes"], number), line=number)


def _only(pairs: dict[str, str], known: set[str], number: int) -> None:
    unknown = sorted(set(pairs) - known)
    if unknown:
        raise broken(f"The key {unknown[0]!r} is not known here.", number)


def _hosts(text: str, number: int) -> tuple[str, ...]:
    try:
        return tuple(hosts(text))
    except ValueError as error:
        raise broken(f"This host list cannot be read: {error}.", number) from None
