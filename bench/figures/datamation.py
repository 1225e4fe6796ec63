"""Datamation and MinuteSort: the times to start, read, sort and write.

Left, Datamation (Millennium Sort, 4.2 and Figure 8): a million records of 100 bytes, disk to disk
and durable, on 1, 2 and 4 workers. The time is that of the whole command, measured from outside: it
includes start and end of the program and its workers. Three variants: file to file on this
machine's disk, by threads of one process, or by one process per worker; and, as in the paper, one
disk of 23 MB/s per worker (its Table 1), a disk of the rig without a cache.

`start` is the time outside the flow; the rest comes from its report. `read` lasts until all records
are dealt; `write` is the time in which the sinks are active and files are synced and published;
`sort` lies between them.

Right, MinuteSort: the most data sorted in a minute, from files to a durable file, by a command
whose memory is limited to a part of the machine's, so that large sorts take two passes. The size is
found by doubling and then bisection, to a gigabyte, and the last file in time is checked by
valsort's rules.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from clusters import Cluster, records

import euphrates as eu
import rig

TITLE = "Datamation on 1, 2 and 4 workers, and what is sorted in a minute"
PANELS = 2
EUPHRATES = Path(sys.executable).with_name("euphrates")
RECORDS = 1_000_000
WORKERS = [1, 2, 4]
ROUNDS = 5
RATE = 23_000_000
DISK_BYTES = 260_000_000
WAYS = {
    "threads": "threads",
    "processes": "processes",
    "disks": "processes,\na disk of 23 MB/s each",
}
START_SHARE_MAX = 0.2
STAGES = {"start": "#cf222e", "read": "#54aeff", "sort": "#1f6feb", "write": "#0a3069"}
MINUTE_SECONDS = 60.0
PIECE_RECORDS = 10_000_000
"""A gigabyte: the size of each input file."""
PIECES_MAX = 32
MEMORY_SHARE = 0.4
"""The share of the machine's memory: output is in the page cache, and other programs run."""


def missing() -> str | None:
    return rig.missing("disks")


def sort(sources: list[Path], target: Path, *options: str) -> dict[str, Any]:
    """Sorts files that are not in the page cache."""
    target.unlink(missing_ok=True)
    for source in sources:
        forget(source)
    return timed(["sort", *sources, "-o", target, "--by", "key", *options])


def timed(words: list[str | Path], home: Path | None = None) -> dict[str, Any]:
    """Runs a command; returns its wall time from outside, and its report."""
    own = {**os.environ, "EUPHRATES_HOME": str(home)} if home else None
    began = time.perf_counter()
    call = [EUPHRATES, "--log", "json", *words]
    done = subprocess.run(call, check=True, stderr=subprocess.PIPE, env=own)
    took = time.perf_counter() - began
    lines = map(json.loads, done.stderr.splitlines())
    reports = [line["report"] for line in lines if line.get("event") == "report"]
    return {"seconds": took, "report": reports[0]}


def forget(file: Path) -> None:
    """Drops the file from the page cache."""
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def staged(run: dict[str, Any]) -> dict[str, float]:
    """The seconds of each stage; their sum is the time of the command."""
    report = run["report"]

    def mean(module: str, what: str) -> float:
        ones = [one[what] for one in report["instances"] if one["module"] == module]
        return statistics.mean(ones)

    source, *_, sink = (module["id"] for module in report["modules"])
    read = mean(source, "life_seconds")
    waited = mean(sink, "starved_seconds")
    return {
        "start": run["seconds"] - report["seconds"],
        "read": read,
        "sort": waited - read,
        "write": report["seconds"] - waited,
        "seconds": run["seconds"],
    }


class Files:
    """From a file to a file."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = folder / "datamation.dat", folder / "sorted.dat"
        subprocess.run([EUPHRATES, "gensort", str(RECORDS), self.source], check=True)

    def run(self, way: str, count: int) -> dict[str, Any]:
        options = ["--cluster", f"processes:{count}"] if way == "processes" else []
        done = sort([self.source], self.target, "--cores", str(count), *options)
        check(self.target)
        return done


class OnDisks:
    """From a collection to a collection, on one disk per worker."""

    def __init__(self, folder: Path, disks: list[rig.Disk]) -> None:
        self.disks = disks
        paths = [disk.path / "data" for disk in disks]
        self.cluster = Cluster(folder, f"disks{len(disks)}", paths)
        self.cluster.owned_by([f"w{at}" for at in range(len(disks))])
        self.limit(RATE)
        records.write(self.cluster, "records", RECORDS)
        flow = eu.Flow("sort")
        target = eu.write("sorted", disks=self.cluster.names)
        flow.chain(eu.read("records"), eu.sort(["key"]), target)
        self.flow = self.cluster.home / "flow.json"
        flow.save(self.flow)

    def limit(self, rate: int | None) -> None:
        for disk in self.disks:
            disk.set_rate(rate)

    def run(self) -> dict[str, Any]:
        workers = ["--cluster", f"processes:{len(self.disks)}"]
        done = timed(["run", self.flow, *workers], self.cluster.home)
        self.limit(None)
        records.check_and_remove(self.cluster, ["sorted"], RECORDS)
        self.limit(RATE)
        return done


def datamation(folder: Path, rounds: int) -> dict[str, Any]:
    runs: dict[tuple[str, int], list[dict[str, float]]] = {}
    with contextlib.ExitStack() as made:
        files = Files(folder)
        clusters = {}
        for count in WORKERS:
            disks = list(made.enter_context(rig.Disks(count, size=DISK_BYTES)))
            clusters[count] = OnDisks(folder, disks)
        for _ in range(rounds):
            for way, count in ((way, count) for way in WAYS for count in WORKERS):
                done = clusters[count].run() if way == "disks" else files.run(way, count)
                runs.setdefault((way, count), []).append(staged(done))
    files.source.unlink()
    files.target.unlink()
    found: dict[str, Any] = {way: {} for way in WAYS}
    for (way, count), all_ in runs.items():
        # The median run, so that its stages add up.
        middle = sorted(all_, key=lambda one: one["seconds"])[len(all_) // 2]
        found[way][count] = {**middle, "runs": all_}
        told = ", ".join(f"{stage} {middle[stage]:.3f}" for stage in STAGES)
        print(f"    {count} workers, {way}: {middle['seconds']:.2f} s: {told}", flush=True)
    return found


def check(file: Path) -> None:
    call = [EUPHRATES, "--log", "quiet", "valsort", file]
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Minute:
    """Pieces of input, made on demand, and the times to sort prefixes of them."""

    def __init__(self, folder: Path, seconds: float, records: int) -> None:
        self.folder, self.limit, self.records = folder, seconds, records
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.memory = int(memory * MEMORY_SHARE)
        self.runs: list[dict[str, Any]] = []
        self.is_limited_by_room = False

    def fits(self, pieces: int) -> bool:
        """Whether that many pieces are sorted in time."""
        sources = [self.piece(number) for number in range(pieces)]
        target = self.folder / "sorted.dat"
        run = sort(sources, target, "--memory", str(self.memory), "--scratch", str(self.folder))
        bytes_ = pieces * self.records * 100
        assert target.stat().st_size == bytes_
        modules = {one["id"]: one for one in run["report"]["modules"]}
        told = {"bytes": bytes_, "seconds": run["seconds"], "remark": modules["sort_1"]["remark"]}
        self.runs.append(told)
        print(f"    {bytes_ / 1e9:.1f} GB: {run['seconds']:.1f} s", flush=True)
        if run["seconds"] > self.limit:
            return False
        target.rename(self.folder / "best.dat")
        return True

    def path(self, number: int) -> Path:
        return self.folder / f"{number:03}.dat"

    def piece(self, number: int) -> Path:
        path = self.path(number)
        if not path.exists():
            first = number * self.records
            subprocess.run(
                [EUPHRATES, "gensort", f"-b{first}", str(self.records), path], check=True
            )
        return path

    def most(self) -> int:
        """The most pieces sorted in time: doubling, then bisection."""
        fit, over = 0, 1
        while over <= PIECES_MAX and self.has_room(over) and self.fits(over):
            fit, over = over, over * 2
        while over - fit > 1:
            middle = (fit + over) // 2
            if self.has_room(middle) and self.fits(middle):
                fit = middle
            else:
                over = middle
        return fit

    def has_room(self, pieces: int) -> bool:
        """Whether missing input, runs and output fit on the disk."""
        missing = sum(not self.path(number).exists() for number in range(pieces))
        needed = (missing + 2 * pieces) * self.records * 100
        has_room = shutil.disk_usage(self.folder).free > needed
        self.is_limited_by_room |= not has_room
        return has_room


def minute(folder: Path, seconds: float, records: int) -> dict[str, Any]:
    trial = Minute(folder, seconds, records)
    most = trial.most()
    if most:
        check(folder / "best.dat")
    return {
        "limit_seconds": seconds,
        "memory_bytes": trial.memory,
        "is_limited_by_room": trial.is_limited_by_room,
        "bytes": most * records * 100,
        "runs": trial.runs,
    }


def measure(quick: bool) -> dict[str, Any]:
    rounds, seconds, records = (1, 4.0, 1_000_000) if quick else (
        ROUNDS, MINUTE_SECONDS, PIECE_RECORDS)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        return {
            "datamation": datamation(Path(folder), rounds),
            "minute": minute(Path(folder), seconds, records),
        }


def claims(results: dict[str, Any]) -> Any:
    for way, counts in results["datamation"].items():
        one = counts[WORKERS[-1]]
        share = one["start"] / one["seconds"]
        name = WAYS[way].replace("\n", " ")
        told = f"{WORKERS[-1]} workers, {name}: start-up is {share:.0%} of {one['seconds']:.2f} s"
        yield f"{told} (at most {START_SHARE_MAX:.0%})", share <= START_SHARE_MAX
    minute = results["minute"]
    told = f"{minute['bytes'] / 1e9:.1f} GB sorted in {minute['limit_seconds']:.0f} s, and checked"
    limit = ", more have no room on the disk" if minute["is_limited_by_room"] else ""
    yield f"{told}{limit}", minute["bytes"] > 0


def draw(axes: Any, results: dict[str, Any]) -> None:
    left, right = axes
    ticks = []
    for group, (way, counts) in enumerate(results["datamation"].items()):
        for count, one in counts.items():
            bottom, place = 0.0, len(ticks) + group * 0.5
            for stage, colour in STAGES.items():
                label = stage if not ticks else None
                left.bar(place, one[stage], bottom=bottom, color=colour, width=0.7, label=label)
                bottom += one[stage]
            left.text(place, bottom, f"{bottom:.2f}", ha="center", va="bottom", fontsize="small")
            ticks.append((place, f"{count}\n{WAYS[way]}" if count == WORKERS[1] else str(count)))
    left.set_xticks(*zip(*ticks), fontsize="small")
    left.set_xlabel("workers")
    left.set_ylabel("seconds for a million records")
    left.legend(frameon=False, fontsize="small")
    runs = sorted(results["minute"]["runs"], key=lambda one: one["bytes"])
    sizes, seconds = ([run[what] for run in runs] for what in ("bytes", "seconds"))
    right.plot([size / 1e9 for size in sizes], seconds, color="#1f6feb", marker="o", markersize=4)
    right.axhline(results["minute"]["limit_seconds"], color="#57606a", linestyle=":")
    right.set_ylim(0)
    right.set_xlim(0)
    right.set_xlabel("GB of records, disk to disk")
    right.set_ylabel("seconds")
    best = results["minute"]["bytes"] / 1e9
    limit = results["minute"]["limit_seconds"]
    right.set_title(f"{best:.1f} GB in {limit:.0f} s", fontsize="medium")
