"""Instances slowed on purpose, and their reports: live, printed, drawn, in JSON."""

from __future__ import annotations

import json
import time
import xml.dom.minidom

import pytest

import euphrates as eu


def work(batch: eu.Batch) -> eu.Batch:
    time.sleep(0.004)
    return batch


def flow(rows: int) -> eu.Flow:
    made = eu.Flow("slow")
    numbers = made.place(eu.generate("integers", rows=rows), count=1)
    worked = made.place(work, count=4, id="work")
    counted = made.place(eu.count())
    made.attach(numbers, worked, bytes_max="2MiB")
    made.attach(worked, counted)
    made.attach(counted, made.place(eu.collect()))
    return made


def test_slow_instances_are_reported_live_printed_drawn_and_in_json() -> None:
    named: list[set[str]] = []
    lines: list[str] = []

    def tell(progress: eu.Progress) -> None:
        named.append({slow.name for slow in progress.slow})
        lines.append(str(progress))

    slow = eu.perturb(instance="work.2", share=0.8)
    report = flow(240_000_000).go(perturb=slow, progress=tell)
    assert report.collected().to_pylist() == [{"count": 240_000_000}]
    assert set().union(*named) == {"work.2"}
    assert any("slow: work.2 (" in line for line in lines)
    assert [one.name for one in report.slow] == ["work.2"]
    [one] = report.slow
    assert one.module == "work" and not one.than_before
    assert one.factor is not None and 3 < one.factor < 8
    assert one.share_moved is not None and one.share_moved < 0.15 and one.share_equal == 0.25
    assert report.fraction_of_ideal is not None and 0 < report.fraction_of_ideal <= 1
    assert report.divided_seconds is not None and report.ideal_seconds is not None
    assert report.divided_seconds > report.ideal_seconds
    assert report.perturbations == [{"instance": "work.2", "share": 0.8}]
    parsed = json.loads(report.to_json())
    assert parsed["slow"][0]["name"] == "work.2"
    assert len(parsed["history"]["seconds"]) == len(report.history.series[0].bytes_per_second)
    assert "slow: work.2 took" in str(report)
    shown = report._repr_html_()
    assert "slow: work.2 took" in shown and "ideal: " in shown
    begin, end = shown.index("<svg"), shown.index("</svg>") + len("</svg>")
    drawn = xml.dom.minidom.parseString(shown[begin:end])
    assert len(drawn.getElementsByTagName("polyline")) == 5
    assert shown.count("<svg") == 1


def test_report_without_slow_instances_has_no_chart() -> None:
    report = flow(100_000_000).go()
    assert report.slow == []
    assert str(report).splitlines()[-1].startswith("ideal: ")
    assert str(report).splitlines()[-2].startswith("bottleneck: ")
    assert "<svg" not in report._repr_html_()


def test_paused_instance_blocks_neither_peers_nor_the_interpreter() -> None:
    pause = eu.perturb(instance="work.1", pause=True, lasts=3600)
    running = flow(10_000_000).start(perturb=[pause])
    # The other instances continue in Python while it is paused.
    while sum(one.rows_out for one in running.progress().modules if one.id == "work") < 5_000_000:
        assert not running.wait(0.01)
    running.cancel()
    with pytest.raises(eu.Interrupted):
        running.finish()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"instance": "work.9", "share": 0.5}, "work.0 to work.3"),
        ({"module": "wrok", "share": 0.5}, "did you mean `work`"),
        ({"worker": "w1", "share": 0.5}, "no worker named `w1`"),
        ({"disk": "d1", "rate": "5MB/s"}, "no disk named `d1`"),
        ({"module": "work", "share": 2}, "between 0 and 1"),
        ({"module": "work", "pause": True}, "how many seconds"),
        ({"module": "work", "share": 0.5, "lasts": 2, "every": 1}, "must be longer than `lasts`"),
        ({"memory": "900TB"}, "hold less"),
        ({}, "no target"),
    ],
)
def test_invalid_perturbation_is_rejected_before_the_run(
    given: dict[str, object], says: str
) -> None:
    with pytest.raises(eu.UsageError) as refused:
        flow(1000).go(perturb=[eu.perturb(**given)])  # type: ignore[arg-type]
    assert says in str(refused.value)


def test_perturbation_is_constructed_by_perturb() -> None:
    assert repr(eu.perturb(disk="d", rate="5MB/s")) == "eu.perturb(disk='d', rate=5000000)"
    with pytest.raises(eu.UsageError, match="no size"):
        eu.perturb(disk="d", rate=0)
    with pytest.raises(eu.UsageError, match=r"eu\.perturb"):
        flow(1000).go(perturb=[{"share": 0.5}])  # type: ignore[list-item]
