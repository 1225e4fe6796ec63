"""The studio's server with whole runs, driven like its page, and killed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from studio_server import ENDLESS, WAIT_SECONDS, Studio, flow


def group_of(identity: str) -> int | None:
    """The process group of a run: its own, so that Ctrl-C in a terminal does not reach it."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if identity.encode() in words and b"--record" in words:
            assert os.getpgid(int(process.name)) == int(process.name)
            return int(process.name)
    return None


def test_run_reports_progress_and_outcome(studio: Studio) -> None:
    (Path(studio.ask("GET", "/api/session")["root"]) / "in.csv").write_text("n,name\n1,a\n2,\n")
    document = flow(("scan", {"path": {"$var": "path"}}), ("collect", {}), variables={"path": {}})
    identity = studio.run(document, variables={"path": "in.csv"})
    run = studio.ended(identity)
    assert run["state"] == "done", run
    assert run["document"] == document
    assert run["variables"] == {"path": "in.csv"}
    assert run["report"]["modules"][1]["rows_in"] == 2
    assert run["collected"]["collect_1"]["rows"] == [["1", "a"], ["2", None]]
    queue = run["progress"]["queues"][0]
    assert (queue["from"], queue["to"]) == (["scan_0", "out"], ["collect_1", "in"])
    assert studio.ask("GET", "/api/runs")[0]["state"] == "done"


def test_stopped_run_keeps_its_sampled_rows(studio: Studio) -> None:
    identity = studio.run(ENDLESS)
    run = studio.until(identity, lambda run: run.get("progress", {}).get("seconds", 0) > 0.5)
    group = group_of(identity)
    assert group is not None and group != os.getpgid(studio.process.pid)
    modules = {module["id"]: module for module in run["progress"]["modules"]}
    assert modules["generate_0"]["rows_per_second"] > 0
    assert modules["filter_1"]["instances"][0]["worker"] == "w0"
    path = f"/api/runs/{identity}/rows?queue=0"
    deadline = time.monotonic() + WAIT_SECONDS
    while not (sample := studio.ask("GET", path))["rows"]:
        assert time.monotonic() < deadline
    assert len(sample["rows"]) <= 100
    assert sample["schema"][0]["name"] == "n"
    studio.ask("POST", f"/api/runs/{identity}/stop", {})
    run = studio.ended(identity)
    assert run["state"] == "stopped"
    # Rows sampled during the run remain after its end.
    assert studio.ask("GET", path)["rows"]


def test_live_perturbation_names_the_slow_instance_and_is_cleared(studio: Studio) -> None:
    identity = studio.run(ENDLESS)
    studio.until(identity, lambda run: run.get("progress", {}).get("seconds", 0) > 1)
    wish = {"perturbations": [{"module": "filter_1", "share": 0.95}]}
    studio.ask("POST", f"/api/runs/{identity}/perturb", wish)

    def is_named(run: Any) -> bool:
        bottleneck = run["progress"]["bottleneck"]
        return bottleneck is not None and bottleneck["module"] == "filter_1"

    def is_blocked(run: Any) -> bool:
        modules = run["progress"]["modules"]
        return next(one for one in modules if one["id"] == "generate_0")["blocked"] > 0.5

    # The first interval after the change may have been unperturbed for the most part.
    studio.until(identity, lambda run: is_named(run) and is_blocked(run))
    run = studio.until(identity, lambda run: run["progress"]["perturbed"])
    (perturbed,) = run["progress"]["perturbed"]
    assert (perturbed["module"], perturbed["share"]) == ("filter_1", 0.95)
    wish = {"perturbations": [{"module": "generate_0", "share": 0.5, "lasts": 600}]}
    studio.ask("POST", f"/api/runs/{identity}/perturb", wish)
    studio.ask("DELETE", f"/api/runs/{identity}/perturb?number={perturbed['number']}")

    def are_left(*modules: str) -> Callable[[Any], bool]:
        return lambda run: [one["module"] for one in run["progress"]["perturbed"]] == [*modules]

    studio.until(identity, are_left("generate_0"))
    with pytest.raises(AssertionError, match="ended by itself"):
        studio.ask("DELETE", f"/api/runs/{identity}/perturb?number={perturbed['number']}")
    studio.ask("DELETE", f"/api/runs/{identity}/perturb")
    studio.until(identity, are_left())
    with pytest.raises(AssertionError, match="no module named"):
        wish = {"perturbations": [{"module": "nobody", "share": 0.5}]}
        studio.ask("POST", f"/api/runs/{identity}/perturb", wish)


def test_failure_names_module_and_user_code_line(studio: Studio) -> None:
    root = Path(studio.ask("GET", "/api/session")["root"])
    (root / "in.csv").write_text("n\n1\n")
    (root / "flow.py").write_text(
        "import euphrates as eu\n"
        "def broken(batch):\n"
        "    if len(batch): raise ValueError('no')\n"
        "    return batch\n"
        "flow = eu.Flow('f')\n"
        "flow.chain(eu.scan('in.csv'), broken, eu.collect())\n"
    )
    assert studio.ask("POST", "/api/script", {"path": "flow.py"}) == {"needs_trust": True}
    document = studio.ask("POST", "/api/script", {"path": "flow.py", "run": True})["document"]
    run = studio.ended(studio.run(document))
    error = run["error"]
    assert (run["state"], error["module"]) == ("failed", "map_1"), run
    assert "ValueError" in error["message"] + error["traceback"]
    assert "flow.py" in error["message"] + error["traceback"]
    values = [{"column": "n", "text": "1", "is_bare": True}]
    assert error["row"] == {"about": "row 0 of its input", "values": values}


def test_run_survives_a_killed_server(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    first = Studio(tmp_path / "project", tmp_path / "home")
    identity = first.run(ENDLESS)
    first.until(identity, lambda run: "progress" in run)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait(WAIT_SECONDS)
    second = Studio(tmp_path / "project", tmp_path / "home")
    assert second.ask("GET", "/api/runs")[0]["state"] == "running"
    with second.events() as lines:
        assert any(line == b"event: progress\n" for line in lines)
        second.ask("POST", f"/api/runs/{identity}/stop", {})
        assert any(b'"state":"stopped"' in line for line in lines)
    assert second.ended(identity)["state"] == "stopped"
    second.end()


def test_run_of_another_studio_is_shown_live(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    first, second = (Studio(tmp_path / "project", tmp_path / "home") for _ in range(2))
    identity = first.run(ENDLESS)
    second.until(identity, lambda run: "progress" in run)
    with second.events() as lines:
        assert any(line == b"event: progress\n" for line in lines)
        first.ask("POST", f"/api/runs/{identity}/stop", {})
        assert any(b'"state":"stopped"' in line for line in lines)
    first.end()
    second.end()


def is_running(process: int) -> bool:
    try:
        said = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    # A dead process may still be a zombie.
    return said.rsplit(")", 1)[1].split()[0] != "Z"


def test_processes_left_by_a_script_are_ended(studio: Studio) -> None:
    root = Path(studio.ask("GET", "/api/session")["root"])
    (root / "flow.py").write_text(
        "import subprocess\n"
        "import euphrates as eu\n"
        "sleep = ['sleep', '1000']\n"
        "kept = subprocess.Popen(sleep)\n"
        "away = subprocess.Popen(sleep, start_new_session=True)\n"
        "open('left', 'w').write(f'{kept.pid} {away.pid}')\n"
        "flow = eu.Flow('f')\n"
        "flow.chain(eu.generate('integers', rows=3), eu.collect())\n"
    )
    began = time.monotonic()
    said = studio.ask("POST", "/api/script", {"path": "flow.py", "run": True})
    assert said["document"]["name"] == "f"
    assert time.monotonic() - began < WAIT_SECONDS
    kept, away = map(int, (root / "left").read_text().split())
    os.kill(away, signal.SIGKILL)
    deadline = time.monotonic() + WAIT_SECONDS
    while is_running(kept):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_runs_end_with_their_server_on_request(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    first = Studio(tmp_path / "project", tmp_path / "home", "--end-runs")
    identity = first.run(ENDLESS)
    first.until(identity, lambda run: "progress" in run)
    first.process.send_signal(signal.SIGKILL)
    first.process.wait(WAIT_SECONDS)
    second = Studio(tmp_path / "project", tmp_path / "home")
    assert second.ended(identity)["state"] in ("stopped", "failed")
    second.end()


def test_slow_event_reader_gets_only_the_newest_state(
    studio: Studio,
) -> None:
    identity = studio.run(ENDLESS)
    with studio.events() as lines:
        studio.until(identity, lambda run: run.get("progress", {}).get("seconds", 0) > 3)
        seen, deadline = 0.0, time.monotonic() + WAIT_SECONDS
        while seen < 3 and time.monotonic() < deadline:
            line = next(lines)
            if line.startswith(b"data: ") and b'"seconds"' in line:
                seen = json.loads(line[len("data: ") :])["seconds"]
        assert seen >= 3


def test_wheel_contains_the_page(studio: Studio) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=WAIT_SECONDS)
    connection.request("GET", "/", headers=studio.headers())
    page = connection.getresponse().read().decode()
    if "EUPHRATES_CI" not in os.environ and "without the studio's page" in page:
        pytest.skip("built without Node")
    (script,) = (part.split('"')[0] for part in page.split('src="./')[1:])
    connection.request("GET", f"/{script}", headers=studio.headers())
    response = connection.getresponse()
    assert (response.status, script.startswith("assets/")) == (200, True)
    assert len(response.read()) > 10_000


def test_rows_are_sampled_at_remote_consumers(studio: Studio) -> None:
    identity = studio.run(ENDLESS, cluster="processes:2")
    studio.until(identity, lambda run: run.get("progress", {}).get("seconds", 0) > 0.5)
    path, deadline = f"/api/runs/{identity}/rows?queue=0", time.monotonic() + WAIT_SECONDS
    while not (sample := studio.ask("GET", path))["rows"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert 0 < len(sample["rows"]) <= 100
    assert all(row[0].isdigit() for row in sample["rows"])
    # The rows change.
    while studio.ask("GET", path)["rows"] == sample["rows"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    studio.ask("POST", f"/api/runs/{identity}/stop", {})
    assert studio.ended(identity)["state"] == "stopped"
    assert studio.ask("GET", path)["rows"]
