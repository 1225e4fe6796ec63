"""Splits: consumers in other processes take batches at their own pace."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu
from euphrates._feeding import connections
from feeding_cases import (
    SPAWN,
    WAIT_SECONDS,
    Programs,
    epochs,
    flat,
    integers,
    numbers,
    take_and_die,
    take_and_wait,
)

ROWS, SIZE = 1000, 10


@pytest.fixture
def programs() -> Iterator[Programs]:
    made = Programs()
    yield made
    made.end()


def test_consumers_in_other_processes_take_every_row_once(programs: Programs) -> None:
    with integers(ROWS).split(3, batch_size=SIZE) as consumers:
        for consumer in consumers:
            programs.start(epochs, consumer, 2)
        found = [programs.result()[1] for _ in consumers]
    for epoch in range(2):
        assert sorted(flat([one[epoch] for one in found])) == list(range(ROWS))


def test_a_flow_splits_the_rows_of_its_open_output() -> None:
    flow = eu.Flow()
    # The module with the open output is not the one that was placed last.
    high = flow.place(eu.filter("n > 3"))
    flow.attach(flow.place(eu.generate("integers", rows=10)), high)
    with flow.split(1, batch_size=2) as consumers:
        assert sorted(flat(numbers(consumers[0]))) == [4, 5, 6, 7, 8, 9]
    assert eu.sql("select sum(n) as s from high", high=flow).to_pydict() == {"s": [39]}
    flow.attach(high, flow.place(eu.collect()))
    with pytest.raises(eu.UsageError, match="`collect` has no outputs"):
        flow.split(1)


def test_consumers_share_one_tcp_port(programs: Programs) -> None:
    with integers(ROWS).split(2, batch_size=SIZE, listen="127.0.0.1:0") as consumers:
        for one in consumers:
            address = one.address.split(",")[1]
            programs.start(epochs, eu.Consumer(address, one.token, one.number), 1)
        found = [programs.result()[1][0] for _ in consumers]
    assert sorted(flat(found)) == list(range(ROWS))


def test_batches_keep_their_types_over_both_transports() -> None:
    rows = pa.table(
        {
            "text": pa.array(["a", None, "c"]),
            "code": pa.array(["x", "y", "x"]).dictionary_encode(),
            "list": pa.array([[1], None, []]),
            "flag": pa.array([True, False, None]),
            "none": pa.nulls(3),
        }
    )
    expected = eu.query(rows).collect().to_pyarrow()
    with eu.query(rows).split(1, listen="127.0.0.1:0") as consumers:
        for address in consumers[0].address.split(","):
            with_address = eu.Consumer(address, consumers[0].token, 0)
            assert pa.Table.from_batches(list(with_address)).equals(expected)
            with_address.close()


def test_slow_consumer_delays_nobody_and_holds_one_batch(programs: Programs) -> None:
    """The slow one does not go on before the other has taken all the rest."""
    taken, go_on = SPAWN.Event(), SPAWN.Event()
    with integers(ROWS).split(2, batch_size=SIZE) as consumers:
        programs.start(take_and_wait, consumers[0], taken, go_on)
        assert taken.wait(WAIT_SECONDS)
        rest = consumers[1]
        found: list[int] = []
        for batch in rest:
            found += batch["n"].to_pylist()
            if len(found) == ROWS - SIZE:
                go_on.set()
        held = programs.result()
    assert len(held) == SIZE
    assert sorted([*held, *found]) == list(range(ROWS))


def test_flow_waits_for_consumers() -> None:
    """The units that are ready are bounded, so an endless flow stops until some are taken."""
    with integers(10**15).split(1, batch_size=100) as consumers:
        for _ in consumers[0]:
            break
        source = consumers._owner.distributor
        assert len(source._units) <= 6


def test_batch_of_a_killed_consumer_goes_to_another(programs: Programs) -> None:
    seen = SPAWN.Queue()
    with integers(ROWS).split(2, batch_size=SIZE) as consumers:
        dying = programs.start(take_and_die, consumers[0], 3, seen)
        dying.join(WAIT_SECONDS)
        before = [seen.get(timeout=WAIT_SECONDS) for _ in range(3)]
        found = flat(numbers(consumers[1]))
    # The two that it had acknowledged are not given out again; the third is.
    assert sorted([*flat(before[:2]), *found]) == list(range(ROWS))
    assert set(before[2]) <= set(found)


def test_killed_consumer_may_come_back(programs: Programs) -> None:
    seen = SPAWN.Queue()
    with integers(ROWS).split(1, batch_size=SIZE) as consumers:
        programs.start(take_and_die, consumers[0], 2, seen).join(WAIT_SECONDS)
        assert flat(numbers(consumers[0])) == list(range(SIZE, ROWS))


def test_consumer_that_dies_with_the_last_batch_gets_it_again(programs: Programs) -> None:
    seen = SPAWN.Queue()
    with integers(ROWS).split(1, batch_size=SIZE) as consumers:
        # It is told the end when it has asked ahead, and holds the last batch.
        programs.start(take_and_die, consumers[0], ROWS // SIZE, seen).join(WAIT_SECONDS)
        assert flat(numbers(consumers[0])) == list(range(ROWS - SIZE, ROWS))


def test_left_loop_returns_its_batch_unless_acknowledged() -> None:
    with integers(ROWS).split(3, batch_size=SIZE) as consumers:
        for batch in consumers[0]:
            given_back = batch["n"].to_pylist()
            break
        for batch in consumers[1]:
            kept = batch["n"].to_pylist()
            consumers[1].acknowledge()
            break
        rest = flat(numbers(consumers[2]))
    assert given_back == kept == list(range(SIZE))
    assert sorted(rest) == list(range(SIZE, ROWS))


def test_epoch_begins_when_all_have_ended_the_last() -> None:
    with integers(40).split(2, batch_size=SIZE, timeout=WAIT_SECONDS) as consumers:
        first = iter(consumers[0])
        assert next(first).num_rows == SIZE
        found: list[list[int]] = []
        other = threading.Thread(
            target=lambda: found.extend([flat(numbers(consumers[1])) for _ in range(2)])
        )
        other.start()
        mine = flat([batch["n"].to_pylist() for batch in first])
        second = flat(numbers(consumers[0]))
        other.join(WAIT_SECONDS)
    assert sorted([*range(SIZE), *mine, *found[0]]) == list(range(40))
    assert sorted([*second, *found[1]]) == list(range(40))


def test_order_holds_for_each_consumer() -> None:
    rows = integers(ROWS).sort("n desc")
    with rows.split(2, batch_size=7) as consumers:
        found: dict[int, list[int]] = {}

        def take(consumer: eu.Consumer) -> None:
            found[consumer.number] = flat(numbers(consumer))

        threads = [threading.Thread(target=take, args=(one,)) for one in consumers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_SECONDS)
    assert all(one == sorted(one, reverse=True) for one in found.values())
    assert sorted([*found[0], *found[1]]) == list(range(ROWS))


def test_batches_stay_valid_when_their_memory_could_be_used_again() -> None:
    with integers(ROWS).split(1, batch_size=SIZE) as consumers:
        kept = list(consumers[0])
        consumers[0].close()
    assert flat([batch["n"].to_pylist() for batch in kept]) == list(range(ROWS))


def test_error_of_the_flow_reaches_consumers() -> None:
    rows = eu.query({"word": ["1", "two"]}).select(n="cast(word as int)")
    with rows.split(1) as consumers, pytest.raises(eu.FlowError, match="Cannot cast string"):
        list(consumers[0])


def test_wrong_flow_fails_at_the_split() -> None:
    with pytest.raises(eu.UsageError, match="no column named `m`"):
        integers(3).filter("m > 1").split(2)


@pytest.mark.parametrize("count", [0, -1, 5000, 1.5, "2"])
def test_wrong_numbers_of_consumers(count: Any) -> None:
    with pytest.raises(eu.UsageError, match="split into") as caught:
        integers(3).split(count)
    assert caught.value.remedy == "give a number from 1 to 4096"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"timeout": 0}, "timeout is 0"),
        ({"listen": "here"}, "`here` is no address"),
        ({"listen": "192.0.2.1:80"}, "cannot listen at 192.0.2.1:80"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(eu.EuphratesError, match=message):
        integers(3).split(1, **options)


def test_wrong_token_is_an_error() -> None:
    with integers(3).split(1) as consumers:
        wrong = eu.Consumer(consumers[0].address, "0" * 64, 0)
        with pytest.raises(eu.UsageError, match="the token was not accepted"):
            list(wrong)
        assert flat(numbers(consumers[0])) == [0, 1, 2]


def test_consumer_that_is_not_there_is_an_error() -> None:
    with integers(3).split(2) as consumers:
        third = eu.Consumer(consumers[0].address, consumers[0].token, 2)
        with pytest.raises(eu.UsageError, match="no consumer 2") as caught:
            list(third)
        assert caught.value.remedy == "known: consumers 0 to 1"


def test_consumer_connects_once() -> None:
    with integers(3).split(2) as consumers:
        assert flat(numbers(consumers[0])) == [0, 1, 2]
        twin = eu.Consumer(consumers[0].address, consumers[0].token, 0)
        with pytest.raises(eu.UsageError, match="consumer 0 is connected already"):
            list(twin)


def test_two_loops_over_one_consumer_are_an_error() -> None:
    with integers(100).split(1, batch_size=SIZE) as consumers:
        first = iter(consumers[0])
        next(first)
        with pytest.raises(eu.UsageError, match="is being iterated over already"):
            next(iter(consumers[0]))
        assert len(list(first)) == 9


def test_closed_split_ends_its_consumers() -> None:
    consumers = integers(10**15).split(1, batch_size=SIZE)
    with pytest.raises(eu.Interrupted, match="the split was closed"):
        for count, _ in enumerate(consumers[0]):
            if count == 3:
                consumers.close()
    with pytest.raises(eu.ResourceError, match="cannot be reached"):
        list(consumers[0])


PRODUCER = """
import sys
import euphrates as eu
(consumer,) = eu.query(eu.generate("integers", rows=10**12)).split(1, batch_size=10)
print(consumer.address, consumer.token, flush=True)
sys.stdin.read()
"""


def test_death_of_the_producer_is_an_error() -> None:
    pipe = subprocess.PIPE
    producer = subprocess.Popen([sys.executable, "-c", PRODUCER], stdin=pipe, stdout=pipe)
    assert producer.stdout is not None
    address, token = producer.stdout.readline().decode().split()
    with pytest.raises(eu.ResourceError, match="the process that feeds it") as caught:
        for count, _ in enumerate(eu.Consumer(address, token, 0)):
            if count == 3:
                os.kill(producer.pid, signal.SIGKILL)
    producer.communicate()
    assert caught.value.place == "consumer 0"
    with pytest.raises(eu.ResourceError, match="cannot be reached"):
        list(eu.Consumer(address, token, 0))


def test_forked_children_are_consumers() -> None:
    """They open connections of their own, and do not keep those of the parent open."""
    with integers(ROWS).split(2, batch_size=SIZE) as consumers:
        assert consumers[0]._connected().ask({"do": "statistics"})
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, str(len(flat(numbers(consumers[1])))).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 100) == b"1000"
        os.close(reader)
        os.close(writer)


def test_split_that_nobody_has_is_closed() -> None:
    consumers = integers(10**12).split(1)
    address, token = consumers[0].address, consumers[0].token
    pickled = pickle.dumps(integers(3).split(1)[0])
    del consumers
    with pytest.raises(eu.ResourceError, match="cannot be reached"):
        list(eu.Consumer(address, token, 0))
    # One that was sent elsewhere stays open.
    assert flat(numbers(pickle.loads(pickled))) == [0, 1, 2]


def test_strangers_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(connections, "_GREETING_SECONDS", 0.1)
    with integers(3).split(1) as consumers:
        for sent in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\0\0\0\2[]", b"\0\0\0\2{}"):
            stranger = socket.socket(socket.AF_UNIX)
            stranger.settimeout(WAIT_SECONDS)
            stranger.connect("\0" + consumers[0].address.removeprefix("unix:"))
            stranger.sendall(sent)
            while stranger.recv(4096):
                pass
            stranger.close()
        assert flat(numbers(consumers[0])) == [0, 1, 2]


def test_statistics_name_the_consumers() -> None:
    with integers(30).split(2, batch_size=SIZE) as consumers:
        list(consumers[0])
        lines = consumers.stats().splitlines()
        assert lines[1].split()[:3] == ["0", "3", "30"]
        assert lines[2].split()[:3] == ["1", "0", "0"]
        assert consumers[1].stats().splitlines()[1].split()[:3] == ["0", "3", "30"]
