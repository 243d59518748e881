"""``stagecut cluster``: clusters imported from the files of schedulers, fabrics and nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.command_line import AsJson, ServerUrl, StoreUrl, problems_as_exit_status, show

if TYPE_CHECKING:
    from service.clusters import ClusterDocument, ClusterImport

app = typer.Typer(
    name="cluster", help="Import clusters, and list those that are stored.", no_args_is_help=True
)


@app.command("import")
def import_cluster(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Fabric first; later files fill what it leaves open."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="How requests call it; default: the first file's name.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Format of the first file; recognised if absent.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Of a topology.yaml with several topologies, which.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Device, where no file says it.")] = None,
    devices_per_node: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Devices of a node, likewise.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes, where the files describe one only.")
    ] = None,
    fabric: Annotated[
        str | None, typer.Option(help="Network between nodes, such as '400 Gb/s per GPU'.")
    ] = None,
    oversubscription: Annotated[
        float | None, typer.Option(min=1.0, help="A leaf's node-side rate over its uplinks'.")
    ] = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
    server: ServerUrl = None,
) -> None:
    """Read a cluster from files. With --store or --server also keep it by name."""
    if store and server:
        raise typer.BadParameter("give --store or --server, not both")
    with problems_as_exit_status(as_json):
        asked = _asked(
            files,
            name,
            format,
            part,
            device=device,
            devices_per_node=devices_per_node,
            nodes=nodes,
            fabric=fabric,
            oversubscription=oversubscription,
        )
        if server:
            from service.client import Client

            with Client(server) as client:
                document = client.import_cluster(asked)
        else:
            from service.clusters import imported

            document = imported(asked)
            if store:
                _keep(store, document)
        _print(document, as_json)


@app.command("list")
def list_clusters(server: ServerUrl = None, store: StoreUrl = None) -> None:
    """List the clusters that a service or a database stores."""
    if not (store or server):
        raise typer.BadParameter("give --store or --server")
    with problems_as_exit_status(False):
        if server:
            from service.client import Client

            with Client(server) as client:
                found = [(c.name, c.device, c.nodes) for c in client.clusters().clusters]
        else:
            found = _stored(str(store))
        for name, device, nodes in found:
            show(f"{name}  {nodes} nodes of {device}")


def _asked(
    files: list[str], name: str | None, format: str | None, part: str | None, **stated: object
) -> ClusterImport:
    from service.clusters import ClusterImport
    from service.command_line import read_file
    from service.reading import validate

    entries = [{"content": read_file(file).decode("utf-8", "replace")} for file in files]
    entries[0] |= {key: value for key, value in (("format", format), ("part", part)) if value}
    given = {key: value for key, value in stated.items() if value is not None}
    called = name or Path(files[0]).stem.replace(" ", "-")
    return validate(ClusterImport, {"name": called, "files": entries, **given})


def _keep(url: str, document: ClusterDocument) -> None:
    import time

    from service.migrate import migrate
    from service.store import Store, clusters

    store = Store(url)
    try:
        migrate(store)
        with store.writing() as session:
            clusters.put(session, document.name, document.model_dump_json(), time.time())
    finally:
        store.close()


def _stored(url: str) -> list[tuple[str, str, int]]:
    from service.clusters import ClusterSummary
    from service.migrate import migrate
    from service.store import Store, clusters

    store = Store(url)
    try:
        migrate(store)
        with store.reading() as session:
            texts = clusters.documents(session)
    finally:
        store.close()
    found = [ClusterSummary.model_validate_json(text) for text in texts]
    return [(cluster.name, cluster.device, cluster.nodes) for cluster in found]


def _print(document: ClusterDocument, as_json: bool) -> None:
    if as_json:
        show(document.model_dump_json(indent=2))
        return
    rate = document.inter_node_bytes_per_second / 1e9
    show(
        f"{document.name}: {document.nodes} nodes of {document.devices_per_node} x "
        f"{document.device}"
    )
    show(
        f"  leafs {document.leafs}, spines {document.spines}, "
        f"NVLink domains beyond a node {document.domains}"
    )
    show(f"  {rate:g} GB/s per device between nodes")
    for note in document.assumed:
        show(f"  {note}")
