"""Checks a wheel, and the files of deployment, as far as that works without a network.

    python .ci/release_check.py dist/euphrates-*.whl

`make release-check` builds the wheel and calls this. The check of a program that is not there is
left out, with a line that says so; with EUPHRATES_CI in the environment that is a failure. With
`--tag v1.2.3` the version must be that of the tag, and have its own entry in the changelog.
"""

from __future__ import annotations

import argparse
import email
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHEEL_BYTES_MAX = 30_000_000
INSTALL_SECONDS_MAX = 20.0
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
MANYLINUX_OLDEST = (2, 28)
IS_CI = "EUPHRATES_CI" in os.environ


class FailedCheckError(Exception):
    """A check that failed, with what is wrong."""


class SkippedCheckError(Exception):
    """A check that was left out, with the reason."""


def version_of_source() -> str:
    """The version: it stands in Cargo.toml and nowhere else."""
    found = re.search(r'(?m)^version = "([^"]+)"$', (ROOT / "Cargo.toml").read_text())
    assert found, "Cargo.toml has no version"
    return found[1]


def changelog_entry(version: str) -> str:
    """The changes of a version; of the next one under `Unreleased`."""
    text = (ROOT / "CHANGELOG.md").read_text()
    parts = re.split(r"(?m)^## (.+)$", text)
    entries = {title.split()[0]: body.strip() for title, body in zip(parts[1::2], parts[2::2])}
    return entries.get(version, "")


def tool(name: str) -> str:
    """The path of a program."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise (FailedCheckError if IS_CI else SkippedCheckError)(f"{name} is not installed")
    return found


def run(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    """The output of a program, whose failure is a failure."""
    words = [str(word) for word in command]
    given = {**os.environ, **environment}
    done = subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True)
    if done.returncode != 0:
        raise FailedCheckError(f"{' '.join(words)}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout + done.stderr


def check_version(tag: str | None) -> str:
    version = version_of_source()
    if tag is not None and tag != f"v{version}":
        raise FailedCheckError(f"the tag is {tag}, the version {version}")
    if not changelog_entry(version if tag else "Unreleased") and not changelog_entry(version):
        raise FailedCheckError(f"the changelog has nothing on {version}")
    return version


def check_contents(wheel: Path) -> str:
    size = wheel.stat().st_size
    if size > WHEEL_BYTES_MAX:
        raise FailedCheckError(f"{size:,} bytes are more than {WHEEL_BYTES_MAX:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        described = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_string(archive.read(described).decode())
        library = next(name for name in names if name.startswith("euphrates/_euphrates."))
        with archive.open(library) as file:
            has_page = b"<title>Euphrates" in file.read()
    wanted = {
        "Name": "euphrates",
        "Version": version_of_source(),
        "Requires-Python": ">=3.10",
        "License-Expression": "Apache-2.0",
    }
    for field, value in wanted.items():
        if metadata[field] != value:
            raise FailedCheckError(f"{field} is {metadata[field]}, and not {value}")
    if not metadata.get_payload():
        raise FailedCheckError("there is no description")
    missing = {"euphrates/py.typed", "euphrates/_euphrates.pyi"} - set(names)
    if missing:
        raise FailedCheckError(f"the wheel has no {missing}")
    strange = [name for name in names if not name.startswith(("euphrates/", "euphrates-"))]
    if strange:
        raise FailedCheckError(f"the wheel has files outside of the package: {strange[:3]}")
    if not has_page and IS_CI:
        raise FailedCheckError("the studio has no page")
    boms = sum("/sboms/" in name for name in names)
    page = "with the studio's page" if has_page else "without the studio's page"
    return f"{size / 1e6:.1f} MB, {len(names)} files, {page}, {boms} lists of what is inside"


def check_abi(wheel: Path) -> str:
    if "-abi3-" not in wheel.name:
        raise FailedCheckError(f"{wheel.name} is for one Python alone")
    run(tool("abi3audit"), "--strict", wheel)
    return "only the stable interface of Python"


def check_platform(wheel: Path) -> str:
    if "linux" not in wheel.name:
        raise SkippedCheckError("not a wheel for Linux")
    shown = run(tool("auditwheel"), "show", wheel)
    found = re.search(r'platform tag:\s*"(\w+)"', " ".join(shown.split()))
    if found is None:
        raise FailedCheckError(shown)
    oldest = re.search(r"manylinux_(\d+)_(\d+)", found[1])
    is_old = oldest is not None and (int(oldest[1]), int(oldest[2])) <= MANYLINUX_OLDEST
    if IS_CI and not is_old and "musllinux" not in found[1]:
        raise FailedCheckError(f"it needs {found[1]}")
    return found[1] if is_old else f"{found[1]}: only for systems as new as this one"


def pythons() -> Iterator[tuple[str, str]]:
    """The Pythons of this machine: those on the path, and those that pyenv and uv keep."""
    kept = {"pyenv": Path.home() / ".pyenv/versions", "uv": Path.home() / ".local/share/uv/python"}
    for version in PYTHONS:
        found = [shutil.which(f"python{version}"), sys.executable]
        found += sorted(map(str, kept["pyenv"].glob(f"{version}.*/bin/python")))
        found += sorted(map(str, kept["uv"].glob(f"cpython-{version}.*/bin/python")))
        works = (path for path in found if path and _runs(path, version))
        if first := next(works, None):
            yield version, first


def _runs(python: str, version: str) -> bool:
    """Whether a Python runs, and has this version: some paths are stand-ins that only say no."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() == version


def check_install(wheel: Path) -> str:
    told = []
    for version, python in pythons():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run(python, "-m", "venv", folder / "venv")
            inside = folder / "venv/bin"
            began = time.monotonic()
            offline = ["--no-index", "--no-deps", "--disable-pip-version-check", "-q"]
            run(inside / "python", "-m", "pip", "install", *offline, wheel)
            seconds = time.monotonic() - began
            if seconds > INSTALL_SECONDS_MAX:
                raise FailedCheckError(f"{version}: installing took {seconds:.0f} s")
            where = {"EUPHRATES_HOME": str(folder / "home"), "PYTHONPATH": ""}
            code = "import euphrates; print(euphrates.__version__)"
            for command in (["python", "-c", code], ["euphrates", "--version"]):
                shown = run(inside / command[0], *command[1:], folder=folder, **where)
                if version_of_source() not in shown:
                    raise FailedCheckError(f"{version}: {shown}")
            run(inside / "euphrates", "demo", "--small", folder=folder, **where)
            told.append(f"{version} in {seconds:.1f} s")
    if not told:
        raise FailedCheckError("no Python from 3.10 on is here")
    return ", ".join(told)


def check_workflows() -> str:
    files = sorted((ROOT / ".github/workflows").glob("*.yml"))
    run(tool("actionlint"), *files)
    return f"{len(files)} workflows"


DEPLOY = ROOT / "deploy"


def check_image() -> str:
    run(tool("hadolint"), DEPLOY / "Dockerfile")
    return "Dockerfile"


def check_scripts() -> str:
    files = [*sorted(DEPLOY.rglob("*.sh")), *sorted(DEPLOY.rglob("*.sbatch"))]
    run(tool("shellcheck"), *files)
    return f"{len(files)} scripts"


def check_units() -> str:
    files = sorted((DEPLOY / "systemd").glob("*.service"))
    with tempfile.TemporaryDirectory() as name:
        # A unit whose program is not installed is no error of the unit.
        for file in files:
            text = file.read_text().replace("/opt/euphrates/bin/euphrates", "/bin/true")
            Path(name, file.name).write_text(text)
        run(tool("systemd-analyze"), "verify", "--man=no", *sorted(Path(name).iterdir()))
    return f"{len(files)} units"


def check_manifests() -> str:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return _valid(files)


def check_chart() -> str:
    helm = tool("helm")
    chart = DEPLOY / "helm/euphrates"
    told = []
    for name in ("", *(file.name for file in sorted((chart / "ci").glob("*.yaml")))):
        values = ["--values", chart / "ci" / name] if name else []
        run(helm, "lint", "--strict", chart, *values)
        with tempfile.TemporaryDirectory() as folder:
            rendered = Path(folder, "all.yaml")
            rendered.write_text(run(helm, "template", "test", chart, *values))
            told.append(_valid([rendered]))
    return f"{len(told)} sets of values, {told[-1]}"


def _valid(files: list[Path]) -> str:
    """Validates manifests by the schemas of Kubernetes: by kubeconform with a folder of schemas,
    or by a package that holds them.
    """
    schemas = os.environ.get("KUBERNETES_SCHEMAS")
    if schemas:
        run(tool("kubeconform"), "-strict", "-schema-location", schemas, *files)
        return f"{len(files)} files by kubeconform"
    run(tool("kubernetes-validate"), "--strict", *files)
    return f"{len(files)} files by kubernetes-validate"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--tag")
    given = parser.parse_args()
    wheel = given.wheel.resolve()
    checks: dict[str, Callable[[], str]] = {
        "version and changelog": lambda: check_version(given.tag),
        "contents and metadata": lambda: check_contents(wheel),
        "interface of Python": lambda: check_abi(wheel),
        "platform": lambda: check_platform(wheel),
        "installation": lambda: check_install(wheel),
        "workflows": check_workflows,
        "image": check_image,
        "scripts": check_scripts,
        "units": check_units,
        "manifests": check_manifests,
        "chart": check_chart,
    }
    failed = 0
    for name, check in checks.items():
        began = time.monotonic()
        try:
            mark, text = "ok", check()
        except SkippedCheckError as why:
            mark, text = "left out", str(why)
        except FailedCheckError as why:
            mark, text = "FAILED", str(why)
            failed += 1
        print(f"{mark:9} {name:22} {time.monotonic() - began:5.1f} s  {text}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
