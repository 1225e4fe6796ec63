"""The borders of ARCHITECTURE.md, held by a test. Reads files; runs nothing of ours."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).resolve().parents[2]

# Which crates a crate may use. An arrow more is a decision: say why in ARCHITECTURE.md.
ARROWS = {
    "policy": set(),
    "sim": {"policy"},
    # Arithmetic on blocks of bytes: it knows neither files nor stripes.
    "parity": set(),
    "flow": {"policy"},
    # A picture needs the document only, and nothing that defines or runs a flow needs a picture.
    "draw": {"flow"},
    "device": {"policy", "flow"},
    # Files of other programs: nothing that Euphrates keeps itself depends on how they are read.
    "formats": {"policy", "flow", "device"},
    "store": {"policy", "flow", "device", "parity"},
    "wire": {"policy", "flow", "device", "store"},
    # A process launcher of its own: it knows programs, and neither flows nor connections.
    "launch": {"flow"},
    "engine": {"policy", "flow", "device", "store", "wire", "launch"},
    "modules": {"policy", "flow", "device", "store", "formats"},
    # Trees of small files: a log of its own, on the disks and in the catalog of the store.
    "volume": {"policy", "flow", "device", "store", "parity"},
    # Requests of the kernel, answered from the store: no flow runs there.
    "mount": {"flow", "device", "store", "volume"},
    "server": {"engine", "flow"},
    # Queries become documents: it knows neither the modules nor who runs them.
    "sql": {"flow"},
    "cli": {
        *("draw", "engine", "modules", "flow", "device", "store", "formats", "server", "sim"),
        *("sql", "mount"),
    },
    "py": {"cli", "draw", "engine", "modules", "flow", "store", "policy", "server", "sql", "wire"},
}
LOCK = ROOT / "studio/package-lock.json"
LINES_MAX = 450
COLUMNS_MAX = 100
# Words that must not stand in the project, and what to do instead.
BANNED = {
    r"\bTODO\b|\bFIXME\b|\bXXX\b": "finish it, or write it down in the docs as a limit",
    r"\bunimplemented!|\btodo!": "finish it",
    r"/home/\w|/work/\w": "no path of a machine",
}
# Turns of phrase, and what to write instead; in files of these kinds.
IDIOMS = {
    r"\bso many\b": "say how many, or what is counted",
    r"(^|[.!?:|] +|[-*] +|//[/!]? +)Who ": "name the subject: a worker, a user, a process",
    r"\b[Aa]s it travels\b": "encoded, or in flight",
    r"\b[Ww]hat is told\b": "name what is sent, or received",
    r"\b[Hh](e|is|im)\b": "a process is `it`",
}
IDIOMS_IN = (".md", ".rs", ".py", ".ts", ".tsx")
# Pages and functions whose sentences come from the code.
DERIVED_PAGES = {"docs/modules.md", "docs/code-map.md"}
FUNCTIONS = "python/euphrates/_functions/"
# Subjects of commits after this one are `scope: imperative`.
FIRST_WITHOUT_SCOPE = "dfef9180b21a20b76585dcb7b2c032bd6912a625"
SUBJECT = r"[a-z0-9/_.-]+: [a-z].*"
SUBJECT_MAX = 72


def tracked(*suffixes: str) -> list[Path]:
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / line for line in listed.splitlines()]
    return [path for path in paths if path.suffix in suffixes and path.exists()]


def code() -> list[Path]:
    return tracked(".rs", ".py", ".pyi", ".ts", ".tsx", ".mjs", ".css")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def is_derived(path: Path) -> bool:
    name = name_of(path)
    return path.suffix == ".pyi" or name.startswith(FUNCTIONS) or name in DERIVED_PAGES


@pytest.mark.parametrize("crate", sorted(path.name for path in (ROOT / "crates").iterdir()))
def test_crates_depend_only_along_the_arrows(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
    dependencies = manifest.get("dependencies", {})
    used = {name.removeprefix("euphrates-") for name in dependencies if "euphrates-" in name}
    assert crate in ARROWS, f"{crate} is a new crate: give it its arrows here, and say why"
    assert used <= ARROWS[crate], f"{crate} must not use {used - ARROWS[crate]}"


def test_policy_has_no_dependencies_and_no_standard_library() -> None:
    manifest = tomllib.loads((ROOT / "crates/policy/Cargo.toml").read_text())
    assert not manifest.get("dependencies")
    assert "#![no_std]" in (ROOT / "crates/policy/src/lib.rs").read_text()


@pytest.mark.parametrize(
    ("word", "home"),
    [
        (r"\bpyo3\b|\bPyO3\b", "crates/py"),
        (
            r"\bdatafusion_",
            (
                "crates/modules/src/expression",
                # The sketch of quantiles.
                "crates/modules/src/aggregate/states/sketches.rs",
                "crates/sql",
            ),
        ),
        (r"\bclap::", "crates/cli"),
        (r"\b(axum|hyper)::", "crates/server"),
    ],
)
def test_what_only_one_place_may_know(word: str, home: str | tuple[str, ...]) -> None:
    strangers = [
        name_of(path)
        for path in tracked(".rs")
        if not name_of(path).startswith(home) and re.search(word, path.read_text())
    ]
    assert not strangers, f"{word} belongs in {home}"


def test_files_are_short_and_narrow() -> None:
    long, wide = [], []
    for path in code():
        lines = path.read_text().splitlines()
        if len(lines) > LINES_MAX and not is_derived(path):
            long.append(f"{name_of(path)}: {len(lines)} lines")
        wide += [
            f"{name_of(path)}:{number}"
            for number, line in enumerate(lines, 1)
            if len(line) > COLUMNS_MAX and "http" not in line and not is_derived(path)
        ]
    assert not long, f"look for the missing idea: {long}"
    assert not wide, wide


def test_rust_files_say_why_they_exist() -> None:
    silent = [name_of(path) for path in tracked(".rs") if not path.read_text().startswith("//!")]
    assert not silent


def test_studio_files_say_why_they_exist() -> None:
    silent = [
        name_of(path) for path in tracked(".ts", ".tsx") if not path.read_text().startswith("//")
    ]
    assert not silent


def test_the_studio_is_installed_from_the_public_registry() -> None:
    assert "://" not in "".join(re.findall(r'"resolved": .*', LOCK.read_text()))


@pytest.mark.parametrize("banned", sorted(BANNED))
def test_banned_words(banned: str) -> None:
    found = []
    for path in {*code(), *tracked(".md", ".toml", ".json", ".sh")}:
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if re.search(banned, line):
                found.append(f"{name_of(path)}:{number}")
    assert not found, f"{BANNED[banned]}: {found}"


@pytest.mark.parametrize("idiom", sorted(IDIOMS))
def test_plain_words(idiom: str) -> None:
    found = [
        f"{name_of(path)}:{number}"
        for path in tracked(*IDIOMS_IN)
        if path != Path(__file__) and not is_derived(path)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(idiom, line)
    ]
    assert not found, f"{IDIOMS[idiom]}: {found}"


def test_subjects_of_commits_name_a_scope() -> None:
    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    if git("merge-base", "--is-ancestor", FIRST_WITHOUT_SCOPE, "HEAD").returncode != 0:
        pytest.skip("a history without the commit from which subjects are checked")
    log = git("log", "--format=%s", "--no-merges", f"{FIRST_WITHOUT_SCOPE}..HEAD")
    wrong = [
        subject
        for subject in log.stdout.splitlines()
        if len(subject) > SUBJECT_MAX or not re.fullmatch(SUBJECT, subject)
    ]
    assert not wrong, f"`scope: imperative`, at most {SUBJECT_MAX} characters: {wrong}"


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for path in tracked(".md"):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{name_of(path)} -> {target}")
    assert not broken


def test_architecture_names_only_files_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`((?:crates|python|bench|docs|examples|requirements)/[\w./-]+)`", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    assert named and not missing, missing


def test_architecture_draws_the_arrows() -> None:
    """The table has every arrow; the picture leaves out those that follow from others."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\w, ]+|—) \|$", text, re.MULTILINE)
    assert {name: set(re.findall(r"\w+", used)) for name, used in rows} == ARROWS

    def below(crate: str) -> set[str]:
        return ARROWS[crate].union(*map(below, ARROWS[crate]))

    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", text, re.MULTILINE))
    assert drawn == {
        (crate, used)
        for crate, all_used in ARROWS.items()
        for used in all_used
        if not any(used in below(other) for other in all_used)
    }


def test_the_code_map_is_fresh() -> None:
    source = ROOT / "python/euphrates/_tools/code_map.py"
    spec = importlib.util.spec_from_file_location("code_map", source)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = ROOT / module.CODE_MAP
    assert page.read_text() == module.code_map(ROOT), f"run `python {name_of(source)}`"
