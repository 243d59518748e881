"""NCCL's topology dump (``NCCL_TOPO_DUMP_FILE``): the inside of one node.

NCCL, src/graph/xml.cc and topo.cc: ``system/cpu/pci/{gpu,nic/net}``; ``nvlink`` elements give a
target and a count, ``net`` a speed in Mbit/s. Document types and entities are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from solver.cluster.readers.broken import BrokenFile, broken
from solver.cluster.readers.products import device_of_pci
from solver.cluster.topology import Node, Topology

FORMAT = "nccl-xml"

_GPU_CLASSES = ("0x0302", "0x0300")
_SWITCH_CLASS = "0x068000"


@dataclass
class _Element:
    tag: str
    attributes: dict[str, str]
    line: int
    inner: list[_Element] = field(default_factory=list)

    def all(self, tag: str) -> list[_Element]:
        """Every element of that name below this one, in document order."""
        found = []
        for element in self.inner:
            if element.tag == tag:
                found.append(element)
            found.extend(element.all(tag))
        return found


def reads(text: str) -> bool:
    """Whether the text looks like this format."""
    return text.lstrip().startswith("<")


def read(text: str) -> Topology:
    """One node: its devices, their NVLinks, and the rate of its network cards.

    Raises:
        BrokenFile: Not XML, no ``system``, no GPU, or an attribute that is no number.
    """
    system = _parsed(text)
    if system.tag != "system":
        raise broken(f"The outermost element is {system.tag[:40]!r}, not 'system'.", system.line)
    holders = [pci for pci in system.all("pci") if any(e.tag == "gpu" for e in pci.inner)]
    if not holders:
        raise broken("There is no gpu.", system.line)
    bits = sum(_number(net, "speed") for net in system.all("net")) * 1e6
    names = {device_of_pci(pci.attributes.get("device", "")) for pci in holders}
    device = names.pop() if len(names) == 1 else None
    links = {_links(pci) for pci in holders}
    notes = [f"NVLinks per device: {', '.join(str(count) for count in sorted(links))}."]
    switched = any(link.attributes.get("tclass") == _SWITCH_CLASS for link in system.all("nvlink"))
    count = len(holders)
    every = tuple(range(count))
    return Topology(
        nodes=(Node("node", device=device, devices=count),),
        formats=(FORMAT,),
        inter_node_bytes_per_second=bits / 8 / count if bits else None,
        link_groups=(every,) if switched else tuple((one,) for one in every),
        of_one_node=True,
        notes=tuple(notes),
    )


def _links(pci: _Element) -> int:
    return int(sum(_number(link, "count") for link in pci.all("nvlink")))


def _number(element: _Element, name: str) -> float:
    try:
        return float(element.attributes[name])
    except (KeyError, ValueError):
        raise broken(f"<{element.tag}> has no number `{name}`.", element.line) from None


def _parsed(text: str) -> _Element:
    root = _Element("", {}, 0)
    open_elements = [root]
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_elements) > 64:
            raise broken("Elements are nested too deeply.", parser.CurrentLineNumber)
        element = _Element(tag, attributes, parser.CurrentLineNumber)
        open_elements[-1].inner.append(element)
        open_elements.append(element)

    def refuse(*_: object) -> None:
        raise broken("A document type is not accepted.", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_elements.pop()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise broken(f"This is not XML: {expat.ErrorString(error.code)}.", error.lineno) from None
    except BrokenFile:
        raise
    return root.inner[0]
