"""File modes of outputs, and keys in addresses, which no message echoes."""

import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import euphrates as eu


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)


def test_scratch_and_staged_files_are_private(tmp_path: Path, umask: None) -> None:
    seen: dict[str, int] = {}

    def look(batch: Any) -> Any:
        for path in [*tmp_path.rglob("*")]:
            with contextlib.suppress(FileNotFoundError):
                seen[str(path.relative_to(tmp_path))] = mode(path)
        return batch

    flow = eu.Flow()
    tee = flow.chain(
        eu.generate("records", rows=400_000), eu.sort(by="key"), eu.map(look), eu.tee()
    )
    flow.attach(tee, flow.place(eu.save(str(tmp_path / "out.parquet"))), output="0")
    flow.attach(tee, flow.place(eu.write("kept")), output="1")
    home = tmp_path / "home"
    flow.go(memory="16MiB", home=home)

    runs = [name for name in seen if name.startswith("home/scratch/")]
    assert any(name.count("/") > 2 for name in runs), "nothing was written to scratch"
    for name in ["home", *(name for name in runs if name.count("/") == 2)]:
        assert seen[name] & 0o077 == 0, f"{name}: {seen[name]:o}"
    files = [name for name in runs if name.count("/") > 2 and not (tmp_path / name).is_dir()]
    assert [f"{name}: {seen[name]:o}" for name in files if seen[name] != 0o600] == []
    staged = [name for name in seen if name.endswith("euphrates-part")]
    assert staged and {seen[name] for name in staged} == {0o600}
    # Published files have ordinary modes.
    assert mode(tmp_path / "out.parquet") == 0o644
    assert mode(home) == 0o700
    segments = [*(home / "data").rglob("*.arrow")]
    assert segments and {mode(path) for path in segments} == {0o644}


def test_replaced_file_keeps_its_mode(tmp_path: Path, umask: None) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old")
    out.chmod(0o640)
    flow = eu.Flow()
    flow.chain(eu.generate("integers", rows=3), eu.save(str(out), overwrite=True))
    flow.go()
    assert mode(out) == 0o640 and out.read_text() != "old"


def test_group_writable_home_is_shared(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o770)
    old = os.umask(0o002)
    try:
        flow = eu.Flow()
        flow.chain(eu.generate("integers", rows=3), eu.write("kept"))
        flow.go(home=home)
    finally:
        os.umask(old)
    assert mode(home / "data") == 0o775
    assert {mode(path) for path in (home / "data").rglob("*.arrow")} == {0o664}


KEY = "SECRETxyz/123+4"
ADDRESS = f"s3://AKIAEXAMPLE:{KEY}@bucket/a.csv"


def looked_at_by_program(document: dict[str, Any]) -> str:
    with pytest.raises(eu.UsageError) as raised:
        eu.Flow.from_json(json.dumps(document))
    return f"{raised.value} {raised.value!r}"


def run_by_command(document: dict[str, Any], folder: Path, *words: str) -> str:
    (folder / "flow.json").write_text(json.dumps(document))
    words = (sys.executable, "-m", "euphrates", *words)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "config"),
    [
        ("scan", {"path": ADDRESS}),
        ("scan", {"path": ["a.csv", ADDRESS]}),
        ("scan", {"path": ADDRESS.replace("s3:", "S3A:")}),
        ("save", {"path": ADDRESS}),
        ("generate", {"what": ADDRESS, "rows": 1}),
    ],
)
def test_key_in_an_address_is_rejected_and_not_echoed(
    tmp_path: Path, module: str, config: dict[str, Any]
) -> None:
    node = {"id": "it", "module": module, "config": config}
    document = {"euphrates": 1, "name": "keys", "modules": [node], "queues": []}
    told = [
        looked_at_by_program(document),
        *(run_by_command(document, tmp_path, word, "flow.json") for word in ("check", "run")),
        run_by_command(document, tmp_path, "show", "flow.json", "--as", "json"),
        run_by_command(document, tmp_path, "code", "flow.json"),
    ]
    for text in told:
        assert "the address holds a key" in text and "***@bucket/a.csv" in text
        assert "AWS_SECRET_ACCESS_KEY" in text
        assert KEY not in text and "AKIAEXAMPLE" not in text


def test_key_in_a_variable_is_rejected(tmp_path: Path) -> None:
    config = {"path": {"$var": "from"}}
    node = {"id": "it", "module": "scan", "config": config}
    document = {
        "euphrates": 1,
        "name": "keys",
        "variables": {"from": {}},
        "modules": [node, {"id": "out", "module": "collect", "config": {}}],
        "queues": [{"from": "it", "to": "out"}],
    }
    told = run_by_command(document, tmp_path, "run", "flow.json", "-p", f"from={ADDRESS}")
    assert "***@bucket" in told and KEY not in told
    flow = eu.Flow.from_json(json.dumps(document))
    with pytest.raises(eu.UsageError) as raised:
        flow.check(variables={"from": ADDRESS})
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "words",
    [
        ["sort", ADDRESS, "-o", "out.csv", "--by", "n"],
        ["sort", "in.csv", "-o", ADDRESS, "--by", "n"],
        ["copy-in", "kept", ADDRESS],
        ["copy-out", ADDRESS],
        ["gensort", "10", ADDRESS],
        ["run", ADDRESS],
        ["aggregate", ADDRESS, "-o", "out.csv", "--compute", "count()"],
    ],
)
def test_commands_do_not_echo_keys(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "in.csv").write_text("n\n1\n")
    words = [sys.executable, "-m", "euphrates", *words]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert KEY not in done.stdout + done.stderr, done.stderr


def test_flow_built_with_a_key_is_not_saved() -> None:
    flow = eu.Flow()
    flow.chain(eu.scan(ADDRESS), eu.collect())
    for look in (flow.to_json, flow.code, flow.draw, flow.check, flow.go):
        with pytest.raises(eu.UsageError) as raised:
            look()
        assert KEY not in str(raised.value) and "***@bucket" in str(raised.value)
