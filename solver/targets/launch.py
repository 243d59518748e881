"""A script or manifest that starts a written plan on a cluster, its groups placed.

Frameworks number devices with tensor parallelism fastest, then context, data and pipeline parallel
(Megatron-LM's order ``tp-cp-ep-dp-pp``), so consecutive devices of a node share layers, and nodes
in their order hold the stages. What starts a process on every node is torchrun (PyTorch 2.x), Slurm
(``sbatch``), or a Volcano job (``batch.volcano.sh/v1alpha1``) on Kubernetes. MindSpore's frameworks
are started by its own ``msrun`` instead; frameworks of Ascend devices ask for those.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum

from solver.plan import Export
from solver.request import RankOrder
from solver.targets.planned import Planned
from solver.targets.words import yaml_text

PORT = 29500
"""Where the processes of a job meet; PyTorch's default."""


class Launcher(StrEnum):
    """Who starts the processes."""

    TORCHRUN = "torchrun"
    SLURM = "slurm"
    VOLCANO = "volcano"


@dataclass(frozen=True)
class Launch:
    """A file that starts a job."""

    file: str
    media_type: str
    text: str


@dataclass(frozen=True)
class _Entry:
    """A framework's own entry script, and the words by which it takes its configuration."""

    script: str
    words: str
    image: str = "your/image:tag"
    mindspore: bool = False
    ascend: bool = False

    @property
    def resource(self) -> str:
        """What its device plugin calls a device in Kubernetes."""
        return "huawei.com/Ascend910" if self.ascend else "nvidia.com/gpu"

    def of_slurm(self, each: int) -> str:
        """What a node's devices are asked for by in Slurm."""
        return f"--gres=npu:{each}" if self.ascend else f"--gpus-per-node={each}"


_ENTRIES = {
    "megatron-lm": _Entry("pretrain_gpt.py", '"${{MODEL_ARGS[@]}}" {arguments}'),
    "mindspeed": _Entry("pretrain_gpt.py", '"${{MODEL_ARGS[@]}}" {arguments}', ascend=True),
    "megatron-bridge": _Entry("run_recipe.py", "--config-file {file}"),
    "mindformers": _Entry("run_mindformer.py", "--config {file}", mindspore=True, ascend=True),
    "mindformers-graph": _Entry(
        "run_mindformer.py", "--config {file}", mindspore=True, ascend=True
    ),
    "deepspeed": _Entry("train.py", "--deepspeed --deepspeed_config {file}"),
    "torchtitan": _Entry("train.py", "--plan {file}"),
    "colossalai": _Entry("train.py", "--plan {file}"),
    "galvatron": _Entry("train_dist.py", "--galvatron_config_path {file}"),
    "pytorch": _Entry("{file}", ""),
}


def launch(
    launcher: Launcher, planned: Planned, export: Export, devices_per_node: int = 8
) -> Launch:
    """The file that starts a plan.

    Args:
        launcher: Who starts the processes.
        planned: The plan, for its number of devices.
        export: Its configuration.
        devices_per_node: Devices of one node.
    """
    each = min(devices_per_node, planned.devices)
    nodes = -(-planned.devices // each)
    match launcher:
        case Launcher.TORCHRUN:
            return _torchrun(planned, export, nodes, each)
        case Launcher.SLURM:
            return _slurm(planned, export, nodes, each)
        case Launcher.VOLCANO:
            return _volcano(planned, export, nodes, each)


def placement(planned: Planned, nodes: int, each: int) -> str:
    """Which device does what, in words."""
    layout = planned.layout
    inner = layout.tensor_parallel * layout.context_parallel
    per_stage = inner * layout.data_parallel
    words = (
        f"Ranks are numbered over {nodes} x {each} devices: {layout.tensor_parallel} neighbours "
        f"share layers, "
    )
    if layout.rank_order == RankOrder.PIPELINE_INSIDE and layout.pipeline_parallel > 1:
        pipeline = inner * layout.pipeline_parallel
        return (
            f"{words}{pipeline} consecutive ranks hold a pipeline, {inner} a stage of it; stage s "
            f"of replica r is on ranks {pipeline} r + {inner} s to {pipeline} r + {inner} s + "
            f"{inner - 1}."
        )
    words += f"{per_stage} consecutive ranks hold a stage"
    return f"{words}; stage s is on ranks {per_stage} s to {per_stage} s + {per_stage - 1}."


def _command(export: Export, nodes: int, each: int, rank: str, head: str) -> str:
    entry = _ENTRIES[export.framework]
    arguments = " ".join(_quoted(argument) for argument in export.arguments)
    words = entry.words.format(arguments=arguments, file=export.file)
    script = entry.script.format(file=export.file)
    if entry.mindspore:
        return (
            f"msrun --worker_num {nodes * each} --local_worker_num {each} --node_rank {rank} \\\n"
            f"  --master_addr {head} --master_port {PORT} --join True \\\n  {script} {words}"
        )
    return (
        f"torchrun --nnodes {nodes} --nproc-per-node {each} --node-rank {rank} \\\n"
        f"  --master-addr {head} --master-port {PORT} \\\n  {script} {words}".rstrip()
    )


def _quoted(argument: str) -> str:
    """A flag and its value; what a shell would read otherwise in quotes."""
    return argument if "'" in argument else " ".join(map(shlex.quote, argument.split(" ")))


def _environment(planned: Planned, export: Export) -> list[tuple[str, str]]:
    """Megatron's overlap of tensor-parallel communication wants one queue before Blackwell."""
    layout = planned.layout
    if not export.framework.startswith("m") or export.framework.startswith("mindformers"):
        return []
    if layout.zero_stage >= 2 or max(layout.tensor_parallel, layout.context_parallel) == 1:
        return []
    return [("CUDA_DEVICE_MAX_CONNECTIONS", "1")]


def _exports(planned: Planned, export: Export) -> str:
    return "".join(f"export {name}={value}\n" for name, value in _environment(planned, export))


def _model_arguments(export: Export) -> str:
    if "MODEL_ARGS" not in _ENTRIES[export.framework].words:
        return ""
    return "MODEL_ARGS=(  # your model's, data's and optimizer's flags, without those below\n)\n"


def _torchrun(planned: Planned, export: Export, nodes: int, each: int) -> Launch:
    here, head = '"${NODE_RANK:-0}"', '"${MASTER_ADDR:-localhost}"'
    command = _command(export, nodes, each, here, head)
    text = (
        "#!/usr/bin/env bash\n"
        f"# Run on every node, with NODE_RANK 0 to {nodes - 1} and MASTER_ADDR, the first node.\n"
        f"# {placement(planned, nodes, each)}\n"
        "set -euo pipefail\n"
        f"{_exports(planned, export)}{_model_arguments(export)}"
        f"{command}\n"
    )
    return Launch("launch.sh", "application/x-sh", text)


def _slurm(planned: Planned, export: Export, nodes: int, each: int) -> Launch:
    command = _command(export, nodes, each, '"$SLURM_NODEID"', '"$MASTER_ADDR"')
    text = (
        "#!/usr/bin/env bash\n"
        "#SBATCH --job-name=stagecut\n"
        f"#SBATCH --nodes={nodes}\n"
        "#SBATCH --ntasks-per-node=1\n"
        f"#SBATCH {_ENTRIES[export.framework].of_slurm(each)}\n"
        "#SBATCH --exclusive\n"
        "#SBATCH --distribution=block\n"
        f"# {placement(planned, nodes, each)}\n"
        "set -euo pipefail\n"
        f"{_exports(planned, export)}"
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
        "export MASTER_ADDR\n"
        "srun bash -s <<'NODE'\n"
        f"{_model_arguments(export)}{command}\n"
        "NODE\n"
    )
    return Launch("job.sbatch", "application/x-sh", text)


def _volcano(planned: Planned, export: Export, nodes: int, each: int) -> Launch:
    command = _command(export, nodes, each, '"${VC_TASK_INDEX}"', '"${VC_NODE_HOSTS%%,*}"')
    script = f"set -e\n{_model_arguments(export)}{command}\n"
    environment = [{"name": n, "value": v} for n, v in _environment(planned, export)]
    container: dict[str, object] = {
        "name": "train",
        "image": _ENTRIES[export.framework].image,
        "command": ["bash", "-c", script],
        "env": environment,
        "ports": [{"containerPort": PORT, "name": "rendezvous"}],
        "resources": {"limits": {_ENTRIES[export.framework].resource: each}},
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "plan", "mountPath": "/plan"},
        ],
        "workingDir": "/plan",
    }
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": "stagecut",
            "annotations": {"stagecut/placement": placement(planned, nodes, each)},
        },
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": nodes,
            "plugins": {"svc": [], "env": []},
            "networkTopology": {"mode": "soft", "highestTierAllowed": 1},
            "tasks": [
                {
                    "name": "node",
                    "replicas": nodes,
                    "policies": [{"event": "PodFailed", "action": "RestartJob"}],
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [container],
                            "volumes": [
                                {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
                                {"name": "plan", "configMap": {"name": "stagecut-plan"}},
                            ],
                        }
                    },
                }
            ],
        },
    }
    documents: list[object] = [job]
    if not export.arguments:
        documents.insert(
            0,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "stagecut-plan"},
                "data": {export.file: export.text},
            },
        )
    else:
        container["volumeMounts"] = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
        del container["workingDir"]
        spec = job["spec"]
        assert isinstance(spec, dict)
        spec["tasks"][0]["template"]["spec"]["volumes"].pop()
    text = "---\n".join(yaml_text(document) for document in documents)
    return Launch("job.yaml", "application/yaml", text)
