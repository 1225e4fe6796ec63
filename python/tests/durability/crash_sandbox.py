"""The sandbox folder of crash tests, and an inventory of its contents."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from s3_server import S3Server

EUPHRATES = str(Path(sys.executable).with_name("euphrates"))
# Names of runs and staged files contain the time, the process and a number.
NAMES = re.compile(r"[0-9a-f]{9,}(-[0-9a-f]+)+")
# Locks and empty folders that persist between runs.
STANDING = {
    "flow.json",
    "home",
    "home/catalog",
    "home/commits",
    "home/commits/id",
    "home/data",
    "home/data/.staging",
    "home/made",
    "home/scratch",
    "next.json",
}


class Sandbox:
    """The folder of a scenario: a home, named disks, files, and the temporary folder; and a bucket,
    if it has objects.
    """

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str] | None = None,
        s3: S3Server | None = None,
        owners: Sequence[str] = ("w0", "w1"),
    ) -> None:
        self.owners = {f"d{at}": worker for at, worker in enumerate(owners)}
        self.s3, self.objects = s3, dict[str, bytes]()
        self.root = folder / "box"
        self.kept = folder / "kept"
        self.home, self.out = self.root / "home", self.root / "out"
        self.temporary = self.root / "tmp"
        self.environment = {
            **os.environ,
            **(environment or {}),
            **(s3.environment if s3 else {}),
            "EUPHRATES_HOME": str(self.home),
            "TMPDIR": str(self.temporary),
        }
        self.environment.pop("XDG_RUNTIME_DIR", None)

    def make(self) -> None:
        for made in (self.home, self.out, self.temporary):
            made.mkdir(parents=True)
        disks = [
            {"name": disk, "folder": str(self.root / disk), "worker": worker}
            for disk, worker in self.owners.items()
        ]
        (self.home / "disks.json").write_text(json.dumps(disks))

    def keep(self) -> None:
        """Saves the state for later resets."""
        shutil.copytree(self.root, self.kept, symlinks=True)
        if self.s3:
            self.objects = {key: self.s3.get(key) for key in self.s3.keys()}  # noqa: SIM118

    def reset(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self.kept, self.root, symlinks=True)
        if self.s3:
            self.s3.clear()
            for key, content in self.objects.items():
                self.s3.put(key, content)

    def euphrates(self, *words: object) -> subprocess.CompletedProcess[str]:
        command = [EUPHRATES, *map(str, words)]
        return subprocess.run(
            command, env=self.environment, cwd=self.root, capture_output=True, text=True
        )

    def must(self, *words: object) -> None:
        done = self.euphrates(*words)
        assert done.returncode == 0, (words, done.stderr)

    def flow(self, name: str, rows: int, *sinks: dict[str, Any]) -> Path:
        """A flow file that sends integers to each of these sinks."""
        source = {"id": "in", "module": "generate", "config": {"what": "integers", "rows": rows}}
        modules, queues = [source], []
        if len(sinks) > 1:
            modules.append({"id": "tee", "module": "tee"})
            queues.append({"from": "in", "to": "tee"})
        for number, sink in enumerate(sinks):
            modules.append({"id": f"out{number}", **sink})
            queues.append({"from": modules[min(1, len(sinks) - 1)]["id"], "to": f"out{number}"})
        path = self.root / f"{name}.json"
        document = {"euphrates": 1, "name": name, "modules": modules, "queues": queues}
        path.write_text(json.dumps(document))
        return path

    def listed(self) -> Counter[str]:
        """The number of files and folders of each name, without what differs between runs: the
        segments of the newest manifests, their number, and their folders; and without the folders
        of disks and their markers, which the first writer makes and nothing removes.
        """
        shown = set(self.shown())
        paths = (str(path.relative_to(self.root)) for path in self.root.rglob("*"))
        lasting = (path for path in paths if not Path(path).name.startswith(".disk."))
        names = (NAMES.sub("*", path) for path in lasting if path not in shown)
        standing = STANDING | {*self.owners} | {f"{disk}/.staging" for disk in self.owners}
        return Counter(name for name in names if name not in standing)

    def shown(self) -> Iterator[str]:
        """The files of the readable segments, and their folders."""
        newest: dict[str, Path] = {}
        for path in sorted((self.home / "catalog").rglob(".v/*.json")):
            newest[str(path.parent)] = path
        folders = {"home": "home/data"} | {disk: disk for disk in self.owners}
        for path in newest.values():
            try:
                segments = json.loads(path.read_text())["manifest"]["segments"]
            except ValueError:
                # Damaged: no file may have been removed yet.
                segments = self.segments_of_copy(path)
            for segment in segments:
                for copy in (segment, *segment.get("mirrors", [])):
                    for folder in (folders[copy["disk"]], "home/data"):
                        place = f"{folder}/{copy['path']}"
                        yield from (os.path.dirname(place), place, f"{place}.toc")

    def segments_of_copy(self, manifest: Path) -> list[dict[str, Any]]:
        """The segments that a copy of a damaged manifest names."""
        name = manifest.parents[1].relative_to(self.home / "catalog")
        for copy in self.root.glob(f"d*/{name}/.v/{manifest.stem}.*.json"):
            found: list[dict[str, Any]] = json.loads(copy.read_text())["manifest"]["segments"]
            return found
        return []
