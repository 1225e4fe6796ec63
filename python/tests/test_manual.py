"""The manual builds: no dead link, no page without a place in the navigation, every public name."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from euphrates._tools.reference_pages import public_places

ROOT = Path(__file__).resolve().parents[2]
IS_MISSING = importlib.util.find_spec("zensical") is None and "EUPHRATES_CI" not in os.environ
pytestmark = pytest.mark.skipif(IS_MISSING, reason="needs requirements/docs.txt")


def built(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_the_manual_builds_without_a_warning_and_shows_every_public_name(
    tmp_path: Path,
) -> None:
    # A copy, so that two runs of the tests do not write the same folder.
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    package = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "python/euphrates", tmp_path / "python/euphrates", ignore=package)
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    done = built(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = "".join(page.read_text() for page in (tmp_path / "site/api").rglob("index.html"))
    missing = [
        name
        for name, home in public_places().items()
        if f'id="euphrates.{home}.{name}"' not in shown
    ]
    assert not missing
    assert 'class="gp">&gt;&gt;&gt; ' in shown, "examples in docstrings are blocks of code"
    outside = re.findall(r'(?:src|href)="(https?://[^"]*\.(?:js|css|woff2?)[^"]*)"', shown)
    assert not outside, "pages load nothing from other servers"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    lost = [page for page in pages if page not in navigation and not page.startswith("decisions/0")]
    assert not lost


def test_a_dead_link_or_anchor_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: dead\nmarkdown_extensions: [toc]\n")
    for link in ("nowhere.md", "index.md#nowhere"):
        (tmp_path / "docs/index.md").write_text(f"# Here\n\n[gone]({link})\n")
        assert built(tmp_path).returncode != 0, link
