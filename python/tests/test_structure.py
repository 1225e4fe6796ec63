"""The structure of the code: imports between files, and the sizes of folders."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from support.rust_imports import Crate, cycles, flattened
from test_tidy import ROOT, code, name_of

FOLDER_FILES_MAX = 20
FOLDERS_OF_ONE_FILE_A_MODULE = {"crates/modules/src/modules", "python/euphrates/_functions"}
"""Folders with derived lists: the registry of modules, and the functions that configure them."""
TRAIT_METHODS_MAX = 10
TRAIT = re.compile(
    r"^(?:pub(?:\([a-z]+\))? )?trait (\w+)[^{]*\{\n(.*?)^\}", re.DOTALL | re.MULTILINE
)
TYPE = re.compile(r"^(?:pub(?:\([a-z]+\))? )?(?:struct|enum|trait|type|union) (\w+)", re.MULTILINE)
REPEATED_TYPES = {
    # The same role in every file that has one: a module's configuration, an instance, and the state
    # behind a mutex or an `Arc` that only its file knows.
    *("Config", "Instance", "State", "Shared"),
    # The same role for several queues and queue policies.
    *("Producer", "ProducerEndpoint", "ProducerMessage"),
    *("Consumer", "ConsumerEndpoint", "ConsumerMessage"),
    # A Python class and the Rust type that it holds.
    *("Cluster", "Launch", "Running", "WorkerServer"),
    # Aliases of results, a cursor over bytes, and a module named as the data it makes.
    *("Result", "Computed", "UndecodedBytes", "Partition"),
}
METHOD = re.compile(r"^    fn ", re.MULTILINE)


def crates() -> list[str]:
    return sorted(path.name for path in (ROOT / "crates").iterdir())


@pytest.mark.parametrize("crate", crates())
def test_files_of_a_crate_import_each_other_in_one_direction(crate: str) -> None:
    found = cycles(Crate(ROOT / "crates" / crate / "src").edges())
    shown = [["::".join(module) or "lib" for module in cycle] for cycle in found]
    assert not found, shown


def test_folders_have_few_files() -> None:
    counts = Counter(name_of(path.parent) for path in code())
    counts = Counter({k: v for k, v in counts.items() if k not in FOLDERS_OF_ONE_FILE_A_MODULE})
    large = {folder: count for folder, count in counts.items() if count > FOLDER_FILES_MAX}
    assert not large


def features_of(*selection: str) -> set[str]:
    """The packages that Cargo builds for a selection, each with its version and its features."""
    command = ["cargo", "tree", "--locked", "--prefix=none", "--format={p} has {f}", *selection]
    tree = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {line.removesuffix(" (*)") for line in tree.splitlines() if " has " in line}


@pytest.mark.skipif(
    not (shutil.which("cargo") or os.environ.get("EUPHRATES_CI")), reason="no cargo"
)
def test_wheel_and_tests_share_their_dependencies() -> None:
    page = "--features=euphrates-py/page"
    wheel = features_of("--package=euphrates-py", "--edges=normal,build", page)
    tests = features_of("--workspace", "--edges=normal,build,dev", page)
    # Features of a dependency that only the tests set are set in crates/device/Cargo.toml too.
    assert not wheel - tests, "what Cargo would compile a second time for the tests"


def test_use_trees_are_flattened() -> None:
    tree = "crate::{self, a::{B, c as d}, e::F}"
    assert list(flattened(tree)) == [
        (("crate",), "crate"),
        (("crate", "a", "B"), "B"),
        (("crate", "a", "c"), "d"),
        (("crate", "e", "F"), "F"),
    ]


def test_a_cycle_through_a_parent_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "lib.rs").write_text("mod a; mod b; pub use a::c::Thing;")
    (tmp_path / "a.rs").write_text("pub mod c; pub struct Shared; fn f() { c::make(); }")
    (tmp_path / "a/c.rs").write_text("use super::Shared; pub struct Thing; pub fn make() {}")
    (tmp_path / "b.rs").write_text("use crate::Thing; #[cfg(test)]\nmod tests { use crate::a; }")
    edges = Crate(tmp_path).edges()
    assert edges[("b",)] == {("a", "c")}
    assert cycles(edges) == [[("a",), ("a", "c")]]


def test_a_type_name_has_one_meaning() -> None:
    rust = [path for path in code() if path.suffix == ".rs" and "test" not in path.stem]
    library = [path for path in rust if "/src/" in name_of(path)]
    texts = [path.read_text().split("#[cfg(test)]\nmod tests {")[0] for path in library]
    counts = Counter(name for text in texts for name in TYPE.findall(text))
    assert {name for name, count in counts.items() if count > 1} == REPEATED_TYPES


def test_traits_have_few_methods() -> None:
    large = []
    for path in ROOT.glob("crates/*/src/**/*.rs"):
        for name, body in TRAIT.findall(path.read_text()):
            methods = len(METHOD.findall(body))
            if methods > TRAIT_METHODS_MAX:
                large.append(f"{name_of(path)}: {name} has {methods}")
    assert not large
