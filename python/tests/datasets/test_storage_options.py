"""Options of the store of one path, against a real server on loopback that the environment does not
name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import euphrates as eu
from s3_server import BUCKET, S3Server, s3_session  # noqa: F401

SECRET = "SECRETxyz"


@pytest.fixture
def store(s3_session: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:  # noqa: F811
    """An empty bucket of which the environment knows nothing but keys under other names."""
    s3_session.clear()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LAKE_ID", "test")
    monkeypatch.setenv("LAKE_KEY", SECRET)
    s3_session.put("in/a.csv", b"n\n1\n2\n")
    s3_session.put("in/b.csv", b"n\n3\n")
    return s3_session


def options(store: S3Server, **others: str) -> dict[str, str]:
    """The options that lead to the server."""
    named = {"access_key_id": "env:LAKE_ID", "secret_access_key": "env:LAKE_KEY"}
    where = {"endpoint": store.endpoint, "region": "us-east-1", "allow_http": "true"}
    return {**where, **named, **others}


def test_a_path_is_read_and_written_by_its_own_options(store: S3Server) -> None:
    rows = eu.scan(store.url("in/*.csv"), storage_options=options(store))
    assert rows.group_by().agg(total="sum(n)").to_pydict() == {"total": [6]}
    rows.save(store.url("out.csv"), storage_options=options(store))
    assert sorted(store.get("out.csv").split()) == [b"1", b"2", b"3", b"n"]
    large = eu.generate("integers", rows=3_000_000)
    eu.query(large).save(
        store.url("large.parquet"), compression="none", storage_options=options(store)
    )
    assert len(store.get("large.parquet")) > 20 << 20, "an upload in parts"
    assert store.unfinished() == []


def test_workers_use_the_options_of_the_path(store: S3Server) -> None:
    with eu.Cluster.processes(2) as cluster:
        rows = eu.scan(store.url("in/*.csv"), storage_options=options(store))
        rows.sort("n").save(
            store.url("out.parquet"), storage_options=options(store), cluster=cluster
        )
    found = eu.scan(store.url("out.parquet"), storage_options=options(store)).sort("n")
    assert found.to_pydict() == {"n": [1, 2, 3]}


def test_one_flow_reads_and_writes_stores_of_different_options(store: S3Server) -> None:
    for key in ("in/a.csv", "in/b.csv"):
        store.client.put_object_acl(Bucket=BUCKET, Key=key, ACL="public-read")
    joined = eu.sql(
        "select a.n from a join b using (n) order by 1",
        a=eu.scan(store.url("in/a.csv"), storage_options=options(store)),
        b=eu.scan(store.url("in/*.csv"), storage_options=options(store, anonymous="true")),
    )
    assert joined.to_pydict() == {"n": [1, 2]}


def test_a_profile_gives_keys_and_endpoint(
    store: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials").write_text(
        f"[lake]\naws_access_key_id = test\naws_secret_access_key = {SECRET}\n"
    )
    (tmp_path / "config").write_text(
        f"[profile lake]\nregion = us-east-1\nendpoint_url = {store.endpoint}\n"
        "[profile role]\nrole_arn = arn:aws:iam::1:role/x\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    def read(profile: str) -> dict[str, list[object]]:
        named = {"profile": profile, "allow_http": "true"}
        return eu.scan(store.url("in/b.csv"), storage_options=named).to_pydict()

    assert read("lake") == {"n": [3]}
    with pytest.raises(eu.UsageError, match="lake"):
        read("lakes")
    with pytest.raises(eu.UsageError, match="no key of its own"):
        read("role")


def test_options_that_lead_nowhere_name_the_remedy(store: S3Server) -> None:
    url = store.url("in/a.csv")
    for changed, part in [
        ({"allow_http": "false"}, "allow_http"),
        ({"secret_access_key": "env:NO_SUCH_NAME"}, "NO_SUCH_NAME"),
        ({"regoin": "env:LAKE_ID"}, "regoin"),
        ({"endpoint": "http://user:pass@host"}, "env:NAME"),
    ]:
        with pytest.raises(eu.UsageError, match=part):
            eu.scan(url, storage_options={**options(store), **changed}).collect()


def test_secrets_are_in_no_document_and_no_message(store: S3Server, tmp_path: Path) -> None:
    rows = eu.scan(store.url("in/a.csv"), storage_options=options(store))
    report = rows.save(store.url("out.csv"), storage_options=options(store))
    flow = rows.flow
    shown = [flow.to_json(), flow.code(), str(rows.explain()), rows.draw(), str(report)]
    assert not any(SECRET in text for text in shown)
    assert "env:LAKE_KEY" in flow.to_json()
    given = eu.scan(
        store.url("in/a.csv"), storage_options={**options(store), "secret_access_key": SECRET}
    )
    held = eu.Flow("held")
    held.chain(given, eu.collect())
    for look in (held.to_json, held.code, held.draw, held.check, held.go):
        with pytest.raises(eu.UsageError) as raised:
            look()
        assert SECRET not in str(raised.value) and "env:NAME" in str(raised.value)
    document = json.loads(flow.to_json())
    document["modules"][0]["config"]["storage_options"]["session_token"] = SECRET
    (tmp_path / "flow.json").write_text(json.dumps(document))
    for word in ("check", "run", "show", "code"):
        words = [sys.executable, "-m", "euphrates", word, "flow.json"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2, done.stdout
        assert SECRET not in done.stdout + done.stderr and "env:NAME" in done.stderr


def test_commands_take_options_by_the_beginning_of_addresses(
    store: S3Server, tmp_path: Path
) -> None:
    given = " ".join(f"{name}={value}" for name, value in options(store).items())
    words = [sys.executable, "-m", "euphrates", "sql", "--storage", f"s3://{BUCKET} {given}"]
    query = f"select n * 2 as n from '{store.url('in/*.csv')}' order by 1"
    words += [query, "--output", store.url("out.csv")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert store.get("out.csv").split() == [b"n", b"2", b"4", b"6"]
    words[5] = f"secret_access_key={SECRET}"
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and SECRET not in done.stdout + done.stderr
