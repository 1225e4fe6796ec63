"""Euphrates, with workers that join from their hosts, and write to their own disks."""

from __future__ import annotations

import json
from pathlib import Path

from serving import serve, settings

import euphrates as eu

TOLD = settings()
WORKERS = TOLD["workers"]


def disks(home: Path) -> list[str]:
    """One folder per worker; a peer's workers write into one folder, one file each."""
    home.mkdir(parents=True, exist_ok=True)
    entries = [{"name": name, "folder": name, "worker": name} for name in WORKERS]
    (home / "disks.json").write_text(json.dumps(entries))
    return [str(name) for name in WORKERS]


def sort(source: str, target: str) -> None:
    home = Path(target)
    flow = eu.Flow("sort")
    flow.chain(eu.scan(source), eu.sort(["key"]), eu.write("out", disks=disks(home)))
    go(flow, home)


def join(source: str, target: str) -> None:
    home = Path(target)
    flow = eu.Flow("join")
    both = flow.place(eu.join(["k"]))
    for side in ("left", "right"):
        flow.attach(flow.place(eu.scan(f"{source}/{side}")), both, input=side)
    flow.attach(both, flow.place(eu.write("out", disks=disks(home))))
    go(flow, home)


def go(flow: eu.Flow, home: Path) -> None:
    report = flow.go(cluster=cluster, home=home, progress=False)
    (home / "report.json").write_text(report.to_json())


opening = eu.Cluster.join(TOLD["address"], len(WORKERS), token_file=TOLD["token_file"], timeout=120)
with opening as cluster:
    serve({"sort": sort, "join": join})
