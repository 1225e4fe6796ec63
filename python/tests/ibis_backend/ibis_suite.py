"""A pytest plugin with which Ibis' own tests of backends run for this one: `make ibis`."""

from __future__ import annotations

import sys
import types
from collections import Counter
from typing import Any

import ibis
import ibis.backends.sql.compilers as compilers
import pytest
from ibis.backends.tests.base import BackendTest

import euphrates.ibis_backend as backend
from euphrates.ibis_backend import compiler

PASSING_MIN = 1660
"""Of 1,870 tests of Ibis 12.0.0 without those of TPC, 1,665 pass, and 1,442 with DataFusion's
backend. The others need functions and constructs that queries do not have.
"""


class TestConf(BackendTest):
    """What Ibis' tests have to know of this backend."""

    supports_arrays = True
    supports_structs = True
    supports_json = False
    supports_map = False
    stateful = False
    deps = ()

    @classmethod
    def name(cls) -> str:
        return "euphrates"

    def _load_data(self, **_: Any) -> None:
        from ibis.backends.conftest import TEST_TABLES
        from ibis.backends.tests.data import array_types, struct_types, topk, win

        con = self.connection
        for name in TEST_TABLES:
            con.read_parquet(self.data_dir / "parquet" / f"{name}.parquet", table_name=name)
        for name, frame in {
            "array_types": array_types,
            "struct": struct_types,
            "win": win,
            "topk": topk,
        }.items():
            con.create_table(name, frame)

    @staticmethod
    def connect(*, tmpdir: Any, worker_id: str, **options: Any) -> Any:
        return ibis.euphrates.connect(**options)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "euphrates: tests of this backend")
    # Ibis looks for the backend and for `TestConf` among its own modules.
    parts = {
        "": backend,
        ".tests": types.ModuleType("tests"),
        ".tests.conftest": sys.modules[__name__],
    }
    compilers.euphrates = compiler
    for suffix, module in parts.items():
        sys.modules[f"ibis.backends.euphrates{suffix}"] = module


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """The SQL that Ibis recorded for DataFusion is this backend's, too."""
    snapshot = getattr(item, "funcargs", {}).get("snapshot")
    if snapshot is not None:
        snapshot.snapshot_dir = str(snapshot.snapshot_dir).replace("euphrates", "datafusion")


_outcomes: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and not hasattr(report, "wasxfail"):
        _outcomes[report.outcome] += 1


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The run is good where no test is lost that passed before."""
    session.exitstatus = int(_outcomes["passed"] < PASSING_MIN)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passing = _outcomes["passed"]
    terminalreporter.write_line(f"{passing} pass; {PASSING_MIN} at least are expected")
