"""The end of a run with many nodes on one side, and the data stranded at a stopped consumer.

The engine's policies in the simulator: 1,000 producers with 50 consumers, and 50 with 1,000.
Consumers are the bottleneck: at full speed they process half of the producers' rate; one of them is
ten times slower. A producer reads a batch of 1 MiB in 10 ms, a message takes 0.1 ms.

The fluid bound assigns work continuously to any node with spare speed. No run reaches it: no
consumer has work before the first batch is read, which is deducted here for all policies; and the
slowest node may have begun a batch just before the end. The tail is therefore measured in batches
of the slowest node, a producer or the slow consumer.

Where consumers exactly match the producers' rate, lost time is never made up: late binding's loss
in that case is in the raw results (`balanced`), and no claim is made of it.

Right, one consumer of 32 stops for a minute. Each producer that sends unasked may park its credit
there (River, section 2.3.2, has two batches), so the stranded data grows with the number of
producers.
"""

from __future__ import annotations

from typing import Any

from figure import COLOURS, simulated

TITLE = "The tail with very many producers or consumers, and what a stuck consumer holds"
PANELS = 2
POLICIES: dict[str, dict[str, Any]] = {
    "static": {"static": {"credit_max": 2}},
    "round_robin": {"round_robin": {"credit_max": 2}},
    "shortest": {"shortest_of": {"k": 2, "credit_max": 2}},
    "credit": {"credit": {"credit_max": 2}},
    "late_binding": {"late_binding": {}},
}
SHAPES = {"1,000 producers, 50 consumers": (1000, 50), "50 producers, 1,000 consumers": (50, 1000)}
BATCHES, READ_MS, LATENCY_MS = 300_000, 10, 0.1
ROUND_TRIPS = 5
SEEDS = [1, 2, 3]

STUCK_POLICIES = ["round_robin", "shortest", "credit", "late_binding"]
STUCK_PRODUCERS = [1, 3, 10, 30, 100, 300, 1000]
STUCK_CONSUMERS, STUCK_BATCHES, STUCK_MS = 32, 200, [100, 60_000]
HELD_MAX = 3
"""One batch in work, one requested, one awaited."""


def tail(
    shape: str, policy: str, batches: int, seed: int, consumer_speed: float = 0.5
) -> dict[str, Any]:
    producers, consumers = SHAPES[shape]
    report = simulated(
        seed,
        policy=POLICIES[policy],
        producers=producers,
        consumers=consumers,
        batches=batches // producers,
        consumer_speed=consumer_speed,
        read_ms=READ_MS,
        latency_us=LATENCY_MS * 1000,
        perturbations=[{"side": "consumers", "share": {"count": 1}, "slower": 10}],
    )
    tail_ms = report["completed_ms"] - report["bound_ms"] - READ_MS
    slowest = tail_ms / report["slowest_batch_ms"]
    allowed_ms = report["slowest_batch_ms"] + ROUND_TRIPS * 2 * LATENCY_MS
    print(f"    {shape}, {policy}: {tail_ms:.1f} ms, {slowest:.2f} of a batch", flush=True)
    told = {"shape": shape, "policy": policy, "tail_ms": tail_ms, "batches_of_slowest": slowest}
    return told | {"allowed_ms": allowed_ms, "seed": seed, "report": report}


def stuck(policy: str, producers: int) -> dict[str, Any]:
    report = simulated(
        policy=POLICIES[policy],
        producers=producers,
        consumers=STUCK_CONSUMERS,
        batches=max(STUCK_BATCHES, STUCK_CONSUMERS * STUCK_BATCHES // producers),
        # Each consumer needs 10 ms per batch, for any number of producers.
        consumer_speed=STUCK_CONSUMERS / producers,
        read_ms=READ_MS,
        perturbations=[
            {
                "side": "consumers",
                "share": {"count": 1},
                "slower": 0,
                "when": {"between": dict(zip(["from_ms", "until_ms"], STUCK_MS, strict=True))},
            }
        ],
    )
    held = report["held_bytes_max"]
    print(f"    stuck, {producers} producers, {policy}: {held >> 20} MiB", flush=True)
    return {"policy": policy, "producers": producers, "held_bytes": held, "report": report}


def measure(quick: bool) -> dict[str, Any]:
    batches, seeds = (100_000, SEEDS[:1]) if quick else (BATCHES, SEEDS)
    tails = [
        tail(shape, policy, batches, seed)
        for shape in SHAPES
        for policy in POLICIES
        # The other policies vary little with the seed.
        for seed in (seeds if policy == "late_binding" else SEEDS[:1])
    ]
    balanced = [tail(shape, "late_binding", batches, one, 1.0) for shape in SHAPES for one in seeds]
    held = [stuck(policy, count) for policy in STUCK_POLICIES for count in STUCK_PRODUCERS]
    return {"tails": tails, "balanced": balanced, "stuck": held}


def claims(results: dict[str, Any]) -> Any:
    for shape in SHAPES:
        which = ("late_binding", shape)
        mine = [one for one in results["tails"] if (one["policy"], one["shape"]) == which]
        worst = max(mine, key=lambda one: one["tail_ms"])
        told = f"{shape}: {worst['tail_ms']:.1f} ms beyond the bound and the first batch;"
        allowed = worst["allowed_ms"]
        told = f"{told} one batch of the slowest and {ROUND_TRIPS} round trips: {allowed:.0f} ms"
        yield told, worst["tail_ms"] <= allowed
    held = [one["held_bytes"] for one in results["stuck"] if one["policy"] == "late_binding"]
    told = f"whether 1 or {STUCK_PRODUCERS[-1]} producers, late binding leaves a stuck consumer"
    most = max(held)
    yield f"{told} at most {most >> 20} batches (at most {HELD_MAX})", most >> 20 <= HELD_MAX


def draw(axes: Any, results: dict[str, Any]) -> None:
    left, right = axes
    draw_tails(left, results["tails"])
    draw_stuck(right, results["stuck"])


def draw_tails(axis: Any, tails: list[dict[str, Any]]) -> None:
    ticks = {}
    for row, shape in enumerate(SHAPES):
        for place, policy in enumerate(POLICIES):
            which = (policy, shape)
            mine = [one for one in tails if (one["policy"], one["shape"]) == which]
            worst = max(one["batches_of_slowest"] for one in mine)
            at = row * (len(POLICIES) + 1.6) + place
            axis.barh(at, worst, color=COLOURS[policy], height=0.75)
            axis.text(
                worst,
                at,
                f" {worst:,.{0 if worst >= 10 else 2}f}",
                va="center",
                fontsize=8,
                zorder=3,
            )
            ticks[at] = policy.replace("_", " ")
        white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axis.text(
            0.011, row * (len(POLICIES) + 1.6) - 0.75, shape, fontsize=9, weight="bold", bbox=white
        )
    axis.set_yticks(list(ticks), list(ticks.values()), fontsize=8)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlim(0.01, 60_000)
    axis.axvline(1, color=COLOURS["bound"], linewidth=1, linestyle=":", zorder=0)
    axis.set_xlabel("beyond fluid bound and first batch, in batches of the slowest")


def draw_stuck(axis: Any, stuck: list[dict[str, Any]]) -> None:
    # A wide line below remains visible under another.
    widths = {"round_robin": 4.0}
    for policy in STUCK_POLICIES:
        mine = [one for one in stuck if one["policy"] == policy]
        held = [one["held_bytes"] / (1 << 20) for one in mine]
        axis.plot([one["producers"] for one in mine], held, marker="o", markersize=4,
                  linewidth=widths.get(policy, 1.5), color=COLOURS[policy],
                  label=policy.replace("_", " "))  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("producers; one consumer of 32 stops for a minute")
    axis.set_ylabel("MiB one consumer holds at most")
    axis.legend(frameon=False, loc="upper left")
