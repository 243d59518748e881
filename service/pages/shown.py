"""A finished plan with everything that its page shows, made once and kept for a while."""

from __future__ import annotations

import json
from functools import cached_property, lru_cache

from service import titles
from service.console.layouts import layout_in_full
from service.console.recipes import Recipes
from service.pages import summary, words
from service.pages.asked import as_asked
from service.pages.choices import Value, choices
from service.pages.lost import Lost, lost
from service.pages.summary import Fact
from service.replay import Replay, replay
from solver.plan import Plan
from solver.request import PlanRequest

_CONTENTS = (
    ("timeline", "Timeline"),
    ("memory", "Memory"),
    ("tensors", "Tensors"),
    ("stages", "Stages"),
    ("breakdown", "Time"),
    ("baselines", "Other methods"),
    ("alternatives", "Other layouts"),
    ("help", "What would help"),
    ("proof", "Proof"),
    ("use", "Use it"),
)


class ShownPlan:
    """A plan and the request that it answers."""

    def __init__(self, request: PlanRequest, plan: Plan) -> None:
        self.request = request
        self.plan = plan

    @cached_property
    def title(self) -> str:
        """``llama-3.1-70b on 64 × H100-SXM5-80GB``."""
        return title(self.request)

    @cached_property
    def sentence(self) -> str:
        """The answer in a sentence or two."""
        return words.answer(self.plan)

    def limit_of(self, device: int) -> float:
        """Usable bytes of a pipeline rank's device."""
        own = [stage.memory_limit_bytes for stage in self.plan.stages if stage.index == device]
        return next(filter(None, own), None) or self.plan.memory_limit_bytes or 0.0

    @cached_property
    def limit_at_peak(self) -> float:
        """Usable bytes of the device that needs most."""
        most = max(self.plan.stages, key=lambda stage: stage.peak_memory_bytes)
        return self.limit_of(most.index)

    @cached_property
    def verdict(self) -> str:
        """Where it stands, in a word or two: ``optimal``, ``within 0.3% of optimal``."""
        return words.verdict(self.plan)

    @cached_property
    def contents(self) -> list[tuple[str, str]]:
        """The parts of its page: their marks and names."""
        plan = self.plan
        there = {
            "tensors": bool(plan.block_kinds),
            "baselines": bool(plan.baselines),
            "alternatives": bool(plan.alternatives),
            "help": plan.explanation is not None,
            "proof": bool(self.certificate),
        }
        return [(part, name) for part, name in _CONTENTS if there.get(part, True)]

    @cached_property
    def hides(self) -> bool:
        """Whether some recompute is hidden under communication."""
        return any(stage.hidden_recompute_seconds > 0 for stage in self.plan.stages)

    @cached_property
    def recipes(self) -> Recipes:
        """Letters for what blocks recompute."""
        recipes = Recipes()
        for stage in self.plan.stages:
            recipes.of(stage)
        return recipes

    @cached_property
    def alternatives(self) -> list[Lost]:
        """The layouts that did not win, in words."""
        return [lost(other, self.plan) for other in self.plan.alternatives]

    @cached_property
    def choices(self) -> dict[str, list[Value]]:
        """What each value of an open field would cost."""
        return choices(self.plan)

    @property
    def fixed(self) -> str:
        """The fields of the layout that had one value, in words."""
        return ", ".join(name.replace("_", " ") for name in self.plan.fixed_fields)

    @cached_property
    def nearest(self) -> str:
        """The layout that comes nearest to fitting, where none does."""
        lack = self.plan.shortfall
        return layout_in_full(lack.layout) if lack else ""

    @cached_property
    def bottleneck(self) -> str:
        """What decides how long the iteration takes."""
        return words.bottleneck(self.plan)

    @cached_property
    def what_it_is(self) -> list[str]:
        """How the model is cut and what is recomputed."""
        return summary.what_it_is(self.plan)

    @cached_property
    def why_it_is_good(self) -> list[Fact]:
        """What it gains over what else could be done."""
        return summary.why_it_is_good(self.plan)

    @cached_property
    def how_sure(self) -> list[Fact]:
        """What is proved of it, and how far its time can be trusted."""
        return summary.how_sure(self.plan)

    @cached_property
    def certificate(self) -> list[tuple[str, str]]:
        """What is proved, and what that rests on."""
        return words.certificate(self.plan)

    @cached_property
    def pruned(self) -> list[tuple[str, int]]:
        """The bounds that decided against layouts, in words, and against how many."""
        return words.pruned(self.plan)

    @cached_property
    def replay(self) -> Replay:
        """When everything happens."""
        return replay(self.plan)

    @cached_property
    def has_stages(self) -> bool:
        """Whether there is anything to draw."""
        plan = self.plan
        return bool(plan.layout and plan.micro_batches and plan.stages and plan.breakdown)

    @cached_property
    def request_json(self) -> str:
        """The request without what is left to its default."""
        return json.dumps(as_asked(self.request), indent=2, ensure_ascii=False)


@lru_cache(maxsize=64)
def shown(request: str, answer: str) -> ShownPlan:
    """The plan of two stored texts (JSON)."""
    return ShownPlan(PlanRequest.model_validate_json(request), Plan.model_validate_json(answer))


def title(request: PlanRequest) -> str:
    """The model, and the cluster if the request names one."""
    cluster = request.cluster
    name, device = titles.model(request), titles.device(request)
    if device is None:
        return name
    if cluster.devices_per_node is None:
        return f"{name} on {device}"
    return f"{name} on {(cluster.nodes or 1) * cluster.devices_per_node:,} × {device}"
