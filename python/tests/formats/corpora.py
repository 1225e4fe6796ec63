"""Runs many files of other projects' test corpora in one child process, and judges each.

A corpus is a module with

- ``FOLDER``: its folder below the corpora's;
- ``files(root)``: its files;
- ``judge(path, scratch)``: the ``Verdict`` on one file.

The child prints each file that it begins, so that a crash or a hang is the verdict on that file; a
new child continues with the remaining files.

python corpora.py corpora_parquet FILE...
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

import euphrates as eu

ROOT = Path(__file__).parents[3]

# A file takes at most a second; a loaded machine may need much longer.
SECONDS_MAX = 120

READ, REFUSED, WRONG, CRASHED, HUNG = "read", "refused", "wrong", "crashed", "hung"


@dataclass
class Verdict:
    """The outcome of a file."""

    file: str
    outcome: str
    reason: str = ""
    # The formats to which it was written and from which it was read back.
    written: list[str] = field(default_factory=list)


def folder() -> Path | None:
    """The folder of the corpora, or None."""
    given = os.environ.get("EUPHRATES_CORPORA")
    path = Path(given) if given else ROOT.parent / "shared" / "corpora"
    return path if path.is_dir() else None


def judged(corpus: ModuleType, files: list[Path]) -> list[Verdict]:
    """The verdicts on the files, in order."""
    verdicts: list[Verdict] = []
    while len(verdicts) < len(files):
        left = files[len(verdicts) :]
        verdicts.extend(_by_one_child(corpus, left))
    return verdicts


def _by_one_child(corpus: ModuleType, files: list[Path]) -> list[Verdict]:
    """The verdicts of one child, up to the file at which it ended or hung."""
    command = [sys.executable, __file__, corpus.__name__, *map(str, files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_lines, args=(child.stdout, lines), daemon=True).start()
        verdicts: list[Verdict] = []
        while len(verdicts) < len(files):
            name = files[len(verdicts)].name
            try:
                line = lines.get(timeout=SECONDS_MAX)
            except queue.Empty:
                child.kill()
                return [*verdicts, Verdict(name, HUNG, f"nothing for {SECONDS_MAX} s")]
            if line is None:
                return [*verdicts, Verdict(name, CRASHED, f"exit code {child.wait()}")]
            verdicts.append(Verdict(**json.loads(line)))
        return verdicts


def _lines(out: Any, lines: queue.Queue[str | None]) -> None:
    for line in out:
        lines.put(line)
    lines.put(None)


def table(verdicts: dict[str, list[Verdict]]) -> str:
    """Counts by corpus, and the rejected files with their reasons."""
    outcomes = [READ, REFUSED, WRONG, CRASHED, HUNG]
    lines = [f"{'corpus':24}" + "".join(f"{name:>9}" for name in ["files", *outcomes])]
    for corpus, judged in verdicts.items():
        counts = Counter(verdict.outcome for verdict in judged)
        numbers = [len(judged), *(counts[outcome] for outcome in outcomes)]
        lines.append(f"{corpus:24}" + "".join(f"{number:9}" for number in numbers))
        written = Counter(name for verdict in judged for name in verdict.written)
        lines += [f"  written and read back as {name}: {written[name]}" for name in sorted(written)]
        others = [verdict for verdict in judged if verdict.outcome != READ]
        lines += [f"  {v.outcome} {v.file}: {v.reason}" for v in others]
    return "\n".join(lines)


def read(path: Path, **options: Any) -> pa.Table:
    """All rows of a file, in order."""
    flow = eu.Flow("read")
    flow.chain(eu.scan(str(path), order=True, **options), eu.collect())
    return pa.table(flow.go(cores=2, memory="512MiB").collected())


def save(rows: pa.Table, path: Path) -> None:
    """Writes a table to a file."""
    flow = eu.Flow("save")
    flow.chain(eu.from_arrow(rows, order=True), eu.save(str(path), overwrite=True))
    flow.go(cores=2)


def plain(scalar: Any) -> Any:
    """A value without representation differences between libraries."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, (pa.DictionaryScalar, pa.ExtensionScalar)):
        return plain(scalar.value)
    if pa.types.is_map(scalar.type):
        # Some readers return a map as a list of entries.
        return [{"key": plain(e["key"]), "value": plain(e["value"])} for e in _entries(scalar)]
    if isinstance(scalar, pa.ListScalar | pa.ListViewScalar | pa.FixedSizeListScalar):
        return [plain(value) for value in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return {name: plain(scalar[name]) for name in scalar}
    if isinstance(
        scalar, pa.TimestampScalar | pa.Time32Scalar | pa.Time64Scalar | pa.DurationScalar
    ):
        return scalar.value * {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[scalar.type.unit]
    if isinstance(scalar, pa.Date64Scalar):
        return scalar.value // 86_400_000
    if isinstance(scalar, pa.Date32Scalar):
        return scalar.value
    value = scalar.as_py()
    if isinstance(value, float):
        return "nan" if value != value else repr(value)
    return value


def _entries(scalar: Any) -> list[dict[str, Any]]:
    names = scalar.values.type.names
    return [{"key": e[names[0]], "value": e[names[1]]} for e in scalar.values]


def difference(ours: pa.Table, theirs: pa.Table) -> str | None:
    """The first difference between two tables, or None."""
    if ours.column_names != theirs.column_names:
        return f"columns {ours.column_names}, not {theirs.column_names}"
    if ours.num_rows != theirs.num_rows:
        return f"{ours.num_rows} rows, not {theirs.num_rows}"
    if ours.equals(theirs):
        return None
    for name, one, other in zip(ours.column_names, ours.columns, theirs.columns, strict=True):
        for row, (a, b) in enumerate(zip(one, other, strict=True)):
            if (got := plain(a)) != (wanted := plain(b)):
                return f"column {name}, row {row}: {got!r:.60}, not {wanted!r:.60}"
    return None


def written(rows: pa.Table, scratch: Path, formats: list[str]) -> tuple[list[str], str | None]:
    """The formats to which a table was written and from which it was read back, and the first
    failure.

    A format may reject the types of a table before the run; a text format may reject values.
    """
    done = []
    for name in formats:
        path = scratch / f"written.{name}"
        path.unlink(missing_ok=True)
        is_text = name not in ("parquet", "arrow")
        try:
            save(rows, path)
        except eu.UsageError:
            continue
        except eu.FlowError:
            # Rejected values: bytes that are not text, NaN in JSON.
            if is_text:
                continue
            raise
        if is_text:
            # Text formats have fewer types; their own tests compare values.
            back = read(path) if rows.num_rows else rows
            wrong = None if back.num_rows == rows.num_rows else f"{back.num_rows} rows"
        else:
            wrong = difference(read(path), rows)
        if wrong:
            return done, f"written as {name} and read back: {wrong}"
        done.append(name)
    return done, None


def _main(corpus: str, files: list[str]) -> None:
    module = importlib.import_module(corpus)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["EUPHRATES_HOME"] = f"{scratch}/home"
        for name in files:
            path = Path(name)
            try:
                verdict = module.judge(path, Path(scratch))
            except Exception:
                verdict = Verdict(path.name, WRONG, traceback.format_exc())
            print(json.dumps(asdict(verdict)), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
