"""From what tools call a device to its name in the catalogue.

``nvidia-smi`` and GPU feature discovery use the product names, cloud labels their own; a PCI device
id is exact. Sources: NVIDIA's driver documentation (supported products), the pci.ids database, the
clouds' pages on GPU machine types.
"""

from __future__ import annotations

import re

from solver.cluster.device import devices

_PRODUCTS = {
    "tesla-v100-sxm2-32gb": "V100-SXM2-32GB",
    "nvidia-a100-sxm4-40gb": "A100-SXM4-40GB",
    "nvidia-a100-sxm4-80gb": "A100-SXM4-80GB",
    "nvidia-a100-80gb-pcie": "A100-PCIe-80GB",
    "nvidia-a800-sxm4-80gb": "A800-SXM4-80GB",
    "nvidia-h100-80gb-hbm3": "H100-SXM5-80GB",
    "nvidia-h100-80gb": "H100-SXM5-80GB",
    "nvidia-h100-mega-80gb": "H100-SXM5-80GB",
    "nvidia-h100-pcie": "H100-PCIe-80GB",
    "nvidia-h100-nvl": "H100-NVL-94GB",
    "nvidia-h800": "H800-SXM5-80GB",
    "nvidia-h20": "H20-SXM5-96GB",
    "nvidia-h200": "H200-SXM5-141GB",
    "nvidia-h200-141gb": "H200-SXM5-141GB",
    "nvidia-h200-nvl": "H200-NVL-141GB",
    "nvidia-gh200-480gb": "GH200",
    "nvidia-b200": "B200-SXM-180GB",
    "nvidia-gb200": "GB200-NVL72",
    "nvidia-gb300": "GB300-NVL72",
    "nvidia-l40s": "L40S",
    "nvidia-geforce-rtx-4090": "RTX4090",
    "amd-instinct-mi300x-oam": "MI300X",
    "amd-instinct-mi325x": "MI325X",
    "amd-instinct-mi355x": "MI355X",
}

_PCI_DEVICES = {
    "0x20b0": "A100-SXM4-40GB",
    "0x20b2": "A100-SXM4-80GB",
    "0x20b5": "A100-PCIe-80GB",
    "0x2324": "H800-SXM5-80GB",
    "0x2330": "H100-SXM5-80GB",
    "0x2331": "H100-PCIe-80GB",
    "0x2335": "H200-SXM5-141GB",
    "0x2901": "B200-SXM-180GB",
}


def device_of_product(product: str) -> str | None:
    """The catalogue's name of a product; None where the words fit none, or several."""
    plain = re.sub(r"[\s_]+", "-", product.strip()).lower()
    if plain in _PRODUCTS:
        return _PRODUCTS[plain]
    exact = [name for name in devices() if name.lower() == plain]
    if exact:
        return exact[0]
    words = set(plain.removeprefix("nvidia-").split("-"))
    alike = [name for name in devices() if words <= set(name.lower().split("-"))]
    return alike[0] if len(alike) == 1 else None


def device_of_pci(identifier: str) -> str | None:
    """The catalogue's name of an NVIDIA PCI device id such as ``0x2330``."""
    return _PCI_DEVICES.get(identifier.lower())
