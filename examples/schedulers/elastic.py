"""An elastic scheduler that reads capacity curves, against one that shares nodes without them."""

import sys

from workload import jobs

NODES, RESTART_SECONDS = 16, 75.0


def blind(running):  # equal shares; what a share is worth is not known
    return [NODES // len(running) + (i < NODES % len(running)) for i in range(len(running))]


def aware(running):  # the step that brings some job's end nearest for each node, again and again
    def worth(job, size):
        wait = RESTART_SECONDS * (size != job["nodes"])
        return job["curve"][size] / (job["left"] + job["curve"][size] * wait)

    given = [0] * len(running)
    while free := NODES - sum(given):
        gain, i, size = max(
            ((worth(job, size) - worth(job, given[i])) / (size - given[i]), i, size)
            for i, job in enumerate(running) for size in range(given[i] + 1, given[i] + free + 1)
        )  # fmt: skip
        if gain <= 0:
            break
        given[i] = size
    return given


def simulate(share, seed):
    coming, running, now, spent = list(jobs(seed)), [], 0.0, []
    while coming or running:
        for job, nodes in zip(running, share(running) if running else [], strict=False):
            if nodes != job["nodes"]:
                job |= {"nodes": nodes, "ready": now + RESTART_SECONDS}
        ends = [max(job["ready"], now) + job["left"] / job["curve"][job["nodes"]]
                for job in running if job["curve"][job["nodes"]]]  # fmt: skip
        then = min(ends + [job["at"] for job in coming[:1]])
        for job in running:
            job["left"] -= job["curve"][job["nodes"]] * max(0.0, then - max(job["ready"], now))
        spent += [then - job["at"] for job in running if job["left"] < 1e-6]
        running, now = [job for job in running if job["left"] >= 1e-6], then
        while coming and coming[0]["at"] <= now:
            running.append(coming.pop(0))
    return sum(spent) / len(spent) / 60, now / 3600


for share in (blind, aware) if __name__ == "__main__" else ():
    minutes, hours = simulate(share, int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print(f"{share.__name__}: {minutes:.1f} minutes a job, all done after {hours:.1f} h")
