"""A tree of switches, put together from who is below whom; both Slurm forms and Volcano's."""

from __future__ import annotations

from dataclasses import dataclass

from solver.cluster.readers.broken import broken


@dataclass(frozen=True)
class Switch:
    """One switch: the switches and the nodes right below it, and where the file says so."""

    name: str
    switches: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    line: int | None = None


def paths(switches: list[Switch]) -> dict[str, tuple[str, ...]]:
    """The switches above every node, nearest first, in the order of the file.

    Raises:
        BrokenFile: A switch is unknown, described twice, below two others or below itself; or a
            node hangs on two switches.
    """
    known: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in known:
            raise broken(f"{switch.name} is described twice.", switch.line)
        known[switch.name] = switch
    above: dict[str, str] = {}
    for switch in switches:
        for child in switch.switches:
            if child not in known:
                raise broken(
                    f"{switch.name} has {child} below it, which is not described.", switch.line
                )
            if child in above:
                raise broken(f"{child} is below {above[child]} and {switch.name}.", switch.line)
            above[child] = switch.name
    found: dict[str, tuple[str, ...]] = {}
    for switch in switches:
        route = _route(switch, above)
        for node in switch.nodes:
            if node in found:
                raise broken(f"{node} hangs on {found[node][0]} and {switch.name}.", switch.line)
            found[node] = route
    if not found:
        raise broken("No switch has nodes.")
    return found


def _route(switch: Switch, above: dict[str, str]) -> tuple[str, ...]:
    route = [switch.name]
    while route[-1] in above:
        upper = above[route[-1]]
        if upper in route:
            raise broken(f"{switch.name} is below itself.", switch.line)
        route.append(upper)
    return tuple(route)
