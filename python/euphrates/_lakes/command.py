"""The commands `sql` and `sort` on Delta tables. The flow runs by the command `run`, which has the
same options of resources; what is before and behind it, the log's part, is done here.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from .. import _euphrates
from .._user_code.placed import Placed
from .._user_code.query_sinks import sink_of
from .._user_code.query_tables import planned, query
from ..errors import EuphratesError, UsageError
from ..flow import Flow
from ..queries import Query, copy_of
from .clustering import sorting
from .delta import scan_delta
from .delta_commit import Writing
from .delta_paths import SCHEME

_EXIT_CODES = {"failed": 1, "usage": 2, "corrupt": 3, "resource": 4, "interrupted": 130}
_RESOURCES = {
    "--memory": (),
    "--cache": (),
    "--cores": (),
    "--threads": ("-t",),
    "--scratch": (),
    "--workers": (),
    "--queues": (),
    "--cluster": (),
    "--token-file": (),
    "--channel-security": (),
    "--lost-after": (),
    "--metrics": (),
    "--event-log": (),
    "--log": (),
}
"""Options with a value that are passed on to `run`."""


def concerns(arguments: list[str]) -> bool:
    """Whether a command is about a Delta table."""
    of_queries = arguments[1:2] in (["sql"], ["sort"])
    return of_queries and any(
        SCHEME in word or "delta_scan(" in word.lower() for word in arguments[2:]
    )


def main(arguments: list[str]) -> int:
    """Runs the command, and returns its exit code."""
    command, words = arguments[1], arguments[2:]
    given, resources = _parsed(command, words)
    try:
        with (_sql if command == "sql" else _sort)(given) as (flow, commit):
            if given.print:
                return _printed(flow, commit)
            code = _run(flow, resources)
            if code == 0 and commit is not None:
                commit()
            return code
    except EuphratesError as error:
        print(f"error: {error}", file=sys.stderr)
        return _EXIT_CODES[error.kind]


def _parsed(command: str, words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog=f"euphrates {command}", allow_abbrev=False)
    if command == "sql":
        parser.add_argument("query", nargs="?")
        parser.add_argument("-f", "--file")
        parser.add_argument("--table", action="append", default=[], metavar="NAME=PATH")
        parser.add_argument("-o", "--output")
    else:
        parser.add_argument("paths", nargs="+", metavar="INPUT")
        parser.add_argument("-o", "--output")
        parser.add_argument("-k", "--by")
    for option in ("--overwrite", "--append", "--print"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--output-format")
    parser.add_argument("--output-compression")
    parser.add_argument("--partition-by", type=lambda text: text.split(","))
    parser.add_argument("--file-bytes", type=int)
    for option, short in _RESOURCES.items():
        parser.add_argument(option, *short, action="append", default=[])
    for option in ("--resume", "--static"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args(words)
    passed = []
    for option in _RESOURCES:
        for value in getattr(given, option.removeprefix("--").replace("-", "_")):
            passed += [option, value]
    passed += [f"--{flag}" for flag in ("resume", "static") if getattr(given, flag)]
    return given, passed


def _run(flow: Flow, resources: list[str]) -> int:
    """Runs the flow by the command `run`."""
    with tempfile.TemporaryDirectory(prefix="euphrates-") as folder:
        path = os.path.join(folder, f"{flow.name}.json")
        flow.save(path)
        return int(_euphrates.cli_main(["euphrates", "run", path, *resources]))


def _printed(flow: Flow, commit: Any) -> int:
    if commit is not None:
        raise UsageError(
            "a commit to a Delta table is no part of a flow", remedy="leave out --print"
        )
    print(flow.spelled_out().to_json())
    return 0


@contextlib.contextmanager
def _sql(given: argparse.Namespace) -> Iterator[tuple[Flow, Any]]:
    text = given.query
    if given.file is not None:
        try:
            with open(given.file, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise UsageError(f"cannot read {given.file}: {error.strerror}") from error
    elif text in (None, "-"):
        text = sys.stdin.read()
    tables: dict[str, Flow] = {}
    for table in given.table:
        name, is_one, path = table.partition("=")
        if not is_one:
            raise UsageError(
                f"`{table}` is not a name and a path", remedy="write it like --table sales=PATH"
            )
        tables[name.strip('"')] = query(path)._flow
    for name in _euphrates.sql_tables(text):
        if name not in tables and name.startswith(SCHEME):
            tables[name] = scan_delta(name)._flow
    with _saved(planned(text, tables), given.output, given) as flow:
        yield flow


@contextlib.contextmanager
def _sort(given: argparse.Namespace) -> Iterator[tuple[Flow, Any]]:
    if given.by is None:
        raise UsageError("sort by what?", remedy="name columns: --by 'price desc, name'")
    by = [key.strip() for key in re.findall(r'(?:"[^"]*"|[^,])+', given.by)]
    *inputs, output = given.paths
    if given.output is not None:
        inputs, output = given.paths, given.output
    if not inputs:
        layout = {"file_bytes": given.file_bytes, "compression": given.output_compression}
        with sorting(given.paths[0], by, layout) as (flow, commit):
            yield flow, commit
        return
    if given.output is None and given.log != ["quiet"]:
        outdated = "warning: an output behind the inputs is outdated, and will be removed"
        print(f"{outdated}: write -o {output}", file=sys.stderr)
    rows = query(inputs[0])
    if inputs[1:]:
        rows = rows.union(*map(query, inputs[1:]))
    with _saved(rows.sort(*by), output, given) as flow:
        yield flow


@contextlib.contextmanager
def _saved(
    rows: Query, output: str | None, given: argparse.Namespace
) -> Iterator[tuple[Flow, Any]]:
    """The flow with its sink, and what commits it."""
    flow = copy_of(rows._flow)
    last = str(flow._document["modules"][-1]["id"])
    has_sink = flow._document["modules"][-1]["module"] in ("save", "save_dataset", "write")
    if has_sink and output is not None:
        raise UsageError(
            "the statement says where its rows go, and so does --output",
            remedy="leave one of them out",
        )
    options = {"file_bytes": given.file_bytes, "compression": given.output_compression}
    mode = "overwrite" if given.overwrite else "append" if given.append else None
    if output is not None and output.startswith(SCHEME):
        writing = Writing(output, mode or "error", None, given.partition_by, {})
        with writing.staged(flow, options) as (complete, commit):
            yield complete, commit
        return
    if output is not None:
        options |= {"format": given.output_format, "partition_by": given.partition_by}
        options |= {"mode": mode} if mode == "append" else {"overwrite": given.overwrite}
        flow.chain(Placed(flow, last), sink_of(output, options))
    elif not has_sink:
        from .._functions.collect import collect

        flow.chain(Placed(flow, last), collect())
    yield flow, None
