"""Runs a job with Euphrates."""

from __future__ import annotations

import euphrates as eu
from bench.shapes.engines import Job, compression, main


def opened(job: Job) -> None:
    """There is no session, but the package loads its parts when a program first uses any."""
    eu.Flow()


def run(session: None, job: Job) -> None:
    flow = eu.Flow(job["task"])
    sources = [eu.scan(input_["path"]) for input_ in job["inputs"]]
    packed = {"compression": compression(job)} if job["format"] in ("parquet", "zstd") else {}
    target = eu.save(job["output"], **packed)
    if job["task"] == "join":
        join = flow.place(eu.join(job["on"], how=job["how"]))
        for side, source in zip(("left", "right"), sources):
            flow.attach(flow.place(source), join, input=side)
        flow.chain(join, target)
    else:
        flow.chain(*sources, *steps(job), target)
    flow.go(cores=job["threads"], memory=job["memory"] or None, home=job["scratch"], progress=False)


def steps(job: Job) -> list[eu.ModuleCall]:
    if job["task"] == "group":
        return [eu.aggregate(job["keys"], values={name: call(*what) for name, *what in
                                                  job["values"]})]  # fmt: skip
    if job["task"] == "scan":
        kept = [eu.filter(job["where"])] if job["where"] else []
        return [*kept, *([eu.project(job["columns"])] if job["columns"] else [])]
    by = [f"{name} desc" if down else name for name, down in job["by"]]
    return [eu.sort(by), *([eu.limit(job["limit"])] if job["limit"] else [])]


def call(function: str, column: str) -> str:
    if function == "count distinct":
        return f"count(distinct {column})"
    return f"{function}({column})"


if __name__ == "__main__":
    main(opened, run)
