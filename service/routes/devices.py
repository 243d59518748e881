"""Devices of the catalogue."""

from __future__ import annotations

from fastapi import APIRouter

from service.catalogues import known_devices
from service.documents import DeviceList
from service.routes.strict_route import StrictRoute

router = APIRouter(prefix="/v1/devices", tags=["catalogues"], route_class=StrictRoute)


@router.get("", summary="The devices that a request can name")
def list_devices() -> DeviceList:
    """Devices that `cluster.device` may name, each figure with its source. SI units."""
    return known_devices()
