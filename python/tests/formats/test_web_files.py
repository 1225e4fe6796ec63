"""Files of web servers, against a real server on loopback."""

from __future__ import annotations

import gzip
import sys
import types
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from web_server import WebServer, web  # noqa: F401

ROWS = 40_000


@pytest.fixture
def numbers(web: WebServer, tmp_path: Path) -> WebServer:  # noqa: F811
    """Numbers as Parquet with several row groups, CSV, compressed CSV, and JSON."""
    table = pa.table({"n": range(ROWS), "t": [f"text {n}" for n in range(ROWS)]})
    pq.write_table(table, tmp_path / "n.parquet", row_group_size=ROWS // 8)
    eu.query(table).save(tmp_path / "n.csv")
    eu.query(table).save(tmp_path / "n.jsonl", format="json_lines")
    for name in ("n.parquet", "n.csv", "n.jsonl"):
        web.files[name] = (tmp_path / name).read_bytes()
    web.files["n.csv.gz"] = gzip.compress(web.files["n.csv"])
    return web


@pytest.mark.parametrize("has_ranges", [True, False], ids=["ranges", "whole files"])
@pytest.mark.parametrize("name", ["n.parquet", "n.csv", "n.csv.gz", "n.jsonl"])
def test_files_are_read_from_any_server(numbers: WebServer, name: str, has_ranges: bool) -> None:
    numbers.has_ranges = has_ranges
    total = eu.scan(numbers.url(name)).group_by().agg(rows="count()", total="sum(n)")
    assert total.to_pydict() == {"rows": [ROWS], "total": [ROWS * (ROWS - 1) // 2]}
    whole = [asked for asked in numbers.asked if asked[:2] == ("GET", f"/{name}") and not asked[2]]
    assert bool(whole) is not has_ranges


@pytest.mark.parametrize("has_ranges", [True, False], ids=["ranges", "whole files"])
@pytest.mark.parametrize("name", ["n.parquet", "n.csv", "n.csv.gz"])
def test_files_of_unknown_length_are_read(numbers: WebServer, name: str, has_ranges: bool) -> None:
    numbers.has_ranges, numbers.has_lengths = has_ranges, False
    total = eu.scan(numbers.url(name)).group_by().agg(rows="count()", total="sum(n)")
    assert total.to_pydict() == {"rows": [ROWS], "total": [ROWS * (ROWS - 1) // 2]}
    numbers.breaks = 1
    assert total.to_pydict()["rows"] == [ROWS]
    assert numbers.breaks == 0


def test_ranges_of_needed_columns_and_row_groups_alone_are_asked_for(numbers: WebServer) -> None:
    rows = eu.sql(f"select n from '{numbers.url('n.parquet')}' where n < 10").to_pydict()
    assert rows["n"] == list(range(10))
    assert numbers.sent_bytes("n.parquet") < len(numbers.files["n.parquet"]) / 2


@pytest.mark.parametrize("has_ranges", [True, False], ids=["ranges", "whole files"])
def test_a_response_that_breaks_off_is_asked_for_again(
    numbers: WebServer, has_ranges: bool
) -> None:
    numbers.has_ranges = has_ranges
    numbers.breaks = 3
    assert eu.scan(numbers.url("n.csv")).collect().num_rows == ROWS
    assert numbers.breaks == 0


def test_a_server_that_always_breaks_off_is_an_error(numbers: WebServer) -> None:
    numbers.breaks = 10**6
    with pytest.raises(eu.ResourceError, match=r"n\.csv"):
        eu.scan(numbers.url("n.csv")).collect()


def test_several_addresses_are_one_table(numbers: WebServer) -> None:
    numbers.files["more/a b.csv"] = b"n,t\n-1,x\n"
    # A query belongs to the address, and not to the name.
    numbers.files["n.csv?version=2"] = numbers.files["n.csv"]
    urls = [numbers.url("more/a%20b.csv"), numbers.url("n.csv?version=2")]
    numbers.files["more/a%20b.csv"] = numbers.files.pop("more/a b.csv")
    assert eu.scan(urls).collect().num_rows == ROWS + 1
    numbers.files["y=1/a.csv"] = numbers.files["y=2/a.csv"] = b"n\n7\n"
    parts = eu.scan([numbers.url(f"y={year}/a.csv") for year in (1, 2)]).filter("y = 2")
    assert parts.to_pydict() == {"n": [7], "y": [2]}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("none.csv", "there is no file"),
        ("*.csv", "pattern"),
        ("folder/", "names no file"),
    ],
)
def test_what_is_no_file_is_a_usage_error(numbers: WebServer, name: str, part: str) -> None:
    with pytest.raises(eu.UsageError, match=part):
        eu.scan(numbers.url(name)).collect()
    with pytest.raises(eu.UsageError, match="takes no files"):
        eu.query({"n": [1]}).save(numbers.url("out.csv"))


def test_a_token_is_named_and_never_shown(
    numbers: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers.token = "SECRET-TOKEN"
    url = numbers.url("n.csv")
    with pytest.raises(eu.UsageError, match="bearer_token"):
        eu.scan(url).collect()
    monkeypatch.setenv("WEB_TOKEN", numbers.token)
    rows = eu.scan(url, storage_options={"bearer_token": "env:WEB_TOKEN"})
    assert rows.collect().num_rows == ROWS
    shown = [rows.flow.to_json(), rows.flow.code(), str(rows.explain()), rows.draw()]
    assert not any(numbers.token in text for text in shown)
    with pytest.raises(eu.UsageError) as raised:
        eu.scan(url, storage_options={"bearer_token": numbers.token}).collect()
    assert numbers.token not in str(raised.value) and "env:NAME" in str(raised.value)
    with pytest.raises(eu.UsageError) as raised:
        eu.scan(f"{url}?sig={numbers.token}").collect()
    assert numbers.token not in str(raised.value) and "env:NAME" in str(raised.value)


def test_a_secret_query_is_sent_and_never_shown(
    numbers: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_QUERY", "?key=SECRET")
    rows = eu.scan(numbers.url("n.csv"), storage_options={"query": "env:WEB_QUERY"})
    numbers.token = "other"
    with pytest.raises(eu.UsageError) as raised:
        rows.collect()
    assert "SECRET" not in str(raised.value)
    numbers.token = None
    numbers.files["n.csv?key=SECRET"] = numbers.files.pop("n.csv")
    assert rows.collect().num_rows == ROWS
    assert "SECRET" not in str(rows.explain())


def test_data_sets_of_the_hub_are_web_files(
    numbers: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class HfFileSystem:
        """The part of the client that is used."""

        def isdir(self, path: str) -> bool:
            return path == "datasets/u/n"

        def exists(self, path: str) -> bool:
            return path in self.glob("")

        def glob(self, _: str) -> list[str]:
            return ["datasets/u/n/n.csv", "datasets/u/n/n2.csv"]

        def find(self, path: str) -> list[str]:
            return [*self.glob(path), f"{path}/README.md"]

        def url(self, path: str) -> str:
            return numbers.url(path.rsplit("/", 1)[-1])

    numbers.files["n2.csv"] = numbers.files["n.csv"]
    hub = types.ModuleType("huggingface_hub")
    hub.HfFileSystem = HfFileSystem  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    counts = {"hf://datasets/u/n/n.csv": 1, "hf://datasets/u/n/*.csv": 2, "hf://datasets/u/n": 2}
    for path, files in counts.items():
        assert eu.scan(path).collect().num_rows == files * ROWS
    counted = eu.sql("select count(*) as c from 'hf://datasets/u/n/n.csv'")
    assert counted.to_pydict() == {"c": [ROWS]}
    assert eu.query("hf://datasets/u/n").collect().num_rows == 2 * ROWS
    with pytest.raises(eu.UsageError, match="no such file"):
        eu.scan("hf://datasets/u/n/none.csv")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(eu.UsageError, match="pip install huggingface_hub"):
        eu.scan("hf://datasets/u/n/n.csv")
