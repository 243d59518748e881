"""The orders of all schedules, written out once more from their definitions, for the check alone.

Nothing here is shared with ``solver.schedules``. A task is ("F", "B" or "W", stage, micro-batch).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

Task = tuple[str, int, int]


def device_of(schedule: str, stage: int, devices: int) -> int:
    """Where a stage stands: in turn, or down the devices and up again."""
    if schedule in ("zb-v", "chimera") and stage >= devices:
        return 2 * devices - 1 - stage
    return stage % devices


def order_of(
    schedule: str, device: int, devices: int, chunks: int, n: int, group: int
) -> list[Task]:
    """The fixed order of one device.

    Args:
        schedule: A request's word for it; ``1f1b`` over several chunks is the interleaved one.
        device: Whose order.
        devices: Pipeline-parallel size.
        chunks: Stages on each device.
        n: Micro-batches per iteration.
        group: Micro-batches that an interleaved schedule takes through a chunk in a row.
    """
    if schedule == "gpipe":
        return [("F", device, m) for m in range(n)] + [("B", device, m) for m in range(n)]
    if schedule == "zb-h1":
        return list(_late(_one_forward_one_backward(device, devices, n), device))
    if schedule == "zb-v":
        return list(_down_and_up(device, devices, n))
    if schedule == "chimera":
        return _both_ways(device, devices, n)
    if chunks == 1:
        return _one_forward_one_backward(device, devices, n)
    return _interleaved(device, devices, chunks, n, group or devices)


def _one_forward_one_backward(device: int, devices: int, n: int) -> list[Task]:
    forwards = [("F", device, m) for m in range(n)]
    backwards = [("B", device, m) for m in range(n)]
    return _in_turn(forwards, backwards, min(devices - device, n) - 1)


def _interleaved(device: int, devices: int, chunks: int, n: int, group: int) -> list[Task]:
    groups = [range(start, min(start + group, n)) for start in range(0, n, group)]
    places = [(chunk, m) for some in groups for chunk in range(chunks) for m in some]
    forwards = [("F", chunk * devices + device, m) for chunk, m in places]
    backwards = [("B", (chunks - 1 - chunk) * devices + device, m) for chunk, m in places]
    ahead = 2 * (devices - device - 1) + (chunks - 1) * group
    return _in_turn(forwards, backwards, min(ahead, n * chunks))


def _in_turn(forwards: list[Task], backwards: list[Task], ahead: int) -> list[Task]:
    order = forwards[:ahead]
    for turn, backward in enumerate(backwards):
        if ahead + turn < len(forwards):
            order.append(forwards[ahead + turn])
        order.append(backward)
    return order


def _late(order: list[Task], lag: int) -> Iterator[Task]:
    """Every B followed by the W of the micro-batch ``lag`` before; the last of them at the end."""
    done = 0
    for task in order:
        yield task
        if task[0] == "B":
            done += 1
            if done > lag:
                yield ("W", task[1], done - lag - 1)
    for m in range(max(done - lag, 0), done):
        yield ("W", order[0][1], m)


def _down_and_up(device: int, devices: int, n: int) -> Iterator[Task]:
    """ZB-V: lower case is the chunk going down, upper case the one going up."""
    full = max(n, 2 * devices - 1)
    warm = "f" * (2 * (devices - device) - 1) + "Ff" * device + "FBW" * (devices - device)
    ahead = warm.count("f")
    turns = "".join(("f" if ahead + i < full else "") + "bwFBW" for i in range(full - devices))
    cool = "bB" * device + "bw" * (devices - device) + "W" * device + "w" * device
    seen: Counter[str] = Counter()
    for letter in warm + turns + cool:
        m = seen[letter]
        seen[letter] += 1
        if m < n:
            stage = device if letter.islower() else 2 * devices - 1 - device
            yield (letter.upper(), stage, m)


def _both_ways(device: int, devices: int, n: int) -> list[Task]:
    """Chimera: what would begin at each moment if every pass lasted one."""
    begins: dict[int, Task] = {}
    for stage in (device, 2 * devices - 1 - device):
        down = stage % devices
        for m in range(n // 2):
            start = 2 * devices * (m // (devices // 2)) + 2 * (m % (devices // 2))
            for moment, work in ((start + down, "F"), (start + 2 * devices - 1 - down, "B")):
                assert moment not in begins, "two passes at the same moment"
                begins[moment] = (work, stage, m)
    return [begins[moment] for moment in sorted(begins)]
