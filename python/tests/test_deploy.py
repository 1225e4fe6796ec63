"""The files of `deploy` call options that exist, and name the version of the source."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
VERSION = re.search(r'(?m)^version = "([^"]+)"$', (ROOT / "Cargo.toml").read_text())[1]
CALLED = {
    "worker": [
        *("systemd/euphrates-worker.service", "kubernetes/cluster.yaml", "ssh.sh"),
        *("slurm/flow.sbatch", "slurm/keeper.sbatch"),
    ],
    "cluster": [
        *("systemd/euphrates-keeper.service", "kubernetes/cluster.yaml", "slurm/keeper.sbatch"),
    ],
    "run": ["slurm/flow.sbatch", "kubernetes/flow.yaml", "ssh.sh"],
    "studio": ["systemd/euphrates-studio.service"],
}
"""Files by the commands that they call."""


@cache
def options(command: str) -> set[str]:
    called = [sys.executable, "-m", "euphrates", command, "--help"]
    shown = subprocess.run(called, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z][a-z-]+", shown))


FILES = sorted({(file, command) for command, files in CALLED.items() for file in files})


@pytest.mark.parametrize(("file", "command"), FILES)
def test_options_exist(file: str, command: str) -> None:
    text = re.sub(r"(?m)^\s*#.*$", "", (DEPLOY / file).read_text())
    others = {c for c, files in CALLED.items() if file in files}
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - {"--export"}
    known = set().union(*(options(name) for name in others))
    assert used and used <= known, used - known
    assert used & options(command)


def test_the_files_name_the_version_of_the_source() -> None:
    chart = (DEPLOY / "helm/euphrates/Chart.yaml").read_text()
    assert f"version: {VERSION}\n" in chart and f'appVersion: "{VERSION}"' in chart
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        images = set(re.findall(r"image: euphrates:(\S+)", file.read_text()))
        assert images == {VERSION}, file.name


def test_pods_have_no_root_and_no_rights() -> None:
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        text = file.read_text()
        pods = text.count("containers:")
        for wanted in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "drop: [ALL]"):
            assert text.count(wanted) == pods, f"{file.name}: {wanted}"
        assert text.count("automountServiceAccountToken: false") == pods
