"""What is to be done about the very nodes that failed: a look-up, nothing is solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from solver.contingencies.cells import Cells, Key
from solver.contingencies.documents import (
    Action,
    ActionKind,
    ContingencyAnswer,
    Course,
    Covered,
    FailureClass,
    NodeSet,
    Reduced,
)
from solver.contingencies.failures import title
from solver.errors import BadRequest


class Lookup:
    """An answer, ready to be asked for any failed node set."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """``answer``: a ``ContingencyAnswer`` as plain data, of which each part is read when it is
        asked for.
        """
        self._answer = answer
        nodes = answer["nodes"]
        self._cells = Cells(
            tuple(tuple(node["stages"]) for node in nodes),
            tuple(tuple(node["replicas"]) for node in nodes),
        )
        self._spares: list[str] = answer["spares"]
        self._names: list[str] = [node["name"] for node in nodes]
        self._position = {name: number for number, name in enumerate(self._names)}
        self._classes: dict[Key, Any] = {
            self._cells.key(found["failed"]): found for found in answer["classes"]
        }

    @classmethod
    def of(cls, answer: ContingencyAnswer) -> Lookup:
        """The same of an answer."""
        return cls(answer.model_dump(mode="json"))

    def covered(self, failed: Sequence[str]) -> Covered:
        """What can be done when these nodes fail, the best first.

        Raises:
            BadRequest: A node is not the plan's, or none is named; or the plan does not fit, so
                that nothing was worked out.
        """
        if not self._names:
            raise BadRequest(
                "The running plan does not fit its devices, so nothing was worked out for any "
                "failed node.",
                field="failed",
                hint="Ask anew with the layout and memory of a plan that fits.",
            )
        spares = [name for name in self._spares if name not in failed]
        for name in failed:
            if name not in self._position and name not in self._spares:
                raise BadRequest(
                    f"The node {name!r} is none of the running plan's.",
                    field="failed",
                    hint="Name nodes as the request did, each in a `failed` of its own.",
                )
        lost = sorted({self._position[name] for name in failed if name in self._position})
        if not lost:
            raise BadRequest(
                "No node of the running plan is among those that failed.",
                field="failed",
                hint="Name at least one.",
            )
        found = self._classes.get(self._cells.key(lost))
        if found is None:
            return self._by_what_is_left(list(failed), lost)
        known = FailureClass.model_validate(found)
        onto = self._cells.onto(known.failed, lost)
        own = next((each for each in known.members if each.failed == lost), None)
        courses = known.courses if own is None else _of_member(known.courses, own)
        actions = [self._action(course, lost, onto, spares) for course in courses]
        return Covered(
            failed=list(failed),
            title=known.title,
            by_itself=True,
            actions=[action for action in actions if action is not None],
        )

    def _action(
        self, course: Course, lost: list[int], onto: dict[int, int], spares: list[str]
    ) -> Action | None:
        """A course with the names of nodes; None where it takes more spares than there are."""
        plan = self._plan(course.plan)
        if plan.action is ActionKind.KEEP_WITH_SPARE:
            if len(spares) < len(lost):
                return None
            taken = dict(zip(lost, spares, strict=False))
            names = [taken.get(node, name) for node, name in enumerate(self._names)]
        elif plan.action is ActionKind.REROUTE:
            names = [self._names[node] for node in sorted(onto[node] for node in course.order)]
        else:
            names = [self._names[onto[node]] for node in course.order]
        return Action(
            plan=plan,
            nodes=names,
            transition_seconds=course.transition_seconds,
            moved_bytes=course.moved_bytes,
            rolls_back=course.rolls_back,
            lost_work_seconds=course.lost_work_seconds,
            break_even_seconds=course.break_even_seconds,
        )

    def _plan(self, number: int) -> Reduced:
        return Reduced.model_validate(self._answer["plans"][number])

    def _by_what_is_left(self, failed: list[str], lost: list[int]) -> Covered:
        """Larger failures: the plans of so many replicas and so many nodes."""
        replicas = len(self._cells.lost_replicas(lost))
        left = self._cells.count - len(lost)
        numbers = [
            number
            for number, plan in enumerate(self._answer["plans"])
            if plan["action"] == ActionKind.DROP_REPLICA and plan["replicas_lost"] == replicas
        ]
        numbers += [
            template["plan"]
            for template in self._answer["templates"]
            if template["nodes"] == left and template["plan"] is not None
        ]
        plans = [self._plan(number) for number in numbers]
        plans.sort(key=lambda plan: plan.iteration_seconds)
        words = f"{len(lost)} nodes" if len(lost) > _TOLD else title(self._cells, lost)
        return Covered(
            failed=failed,
            title=words,
            by_itself=False,
            actions=[self._after_a_checkpoint(plan) for plan in plans],
        )

    def _after_a_checkpoint(self, plan: Reduced) -> Action:
        reading = self._answer["checkpoint_seconds"] or 0.0
        return Action(
            plan=plan,
            nodes=[],
            transition_seconds=self._answer["restart_seconds"] + reading,
            rolls_back=True,
        )


def _of_member(courses: Sequence[Course], own: NodeSet) -> list[Course]:
    """The courses with what it costs this very node set to go there."""
    return [
        course.model_copy(
            update={
                "transition_seconds": seconds,
                "moved_bytes": moved,
                "break_even_seconds": max(
                    course.break_even_seconds + seconds - course.transition_seconds, 0.0
                ),
            }
        )
        for course, seconds, moved in zip(
            courses, own.transition_seconds, own.moved_bytes, strict=True
        )
    ]


_TOLD = 4
"""Nodes that are told one by one in a title."""
