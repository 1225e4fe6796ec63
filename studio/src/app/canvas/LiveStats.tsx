// Live statistics on a module's card: time shares, throughput of the last minute, badges.
// Each subscribes to its own entry of the live store, so a change re-renders one card.

import { type LiveModule, TRACE_SECONDS, useLive } from "../state/liveStore";
import { isInView, type Rect, useView } from "../state/viewStore";
import { TimeBar } from "../ui/TimeBar";

/** Statistics of the module whose card covers `rect`; empty outside of the viewport. */
export function LiveStats({ id, rect }: { readonly id: string; readonly rect: Rect }) {
  const isZoomedOut = useView(({ isZoomedOut }) => isZoomedOut);
  const isDistant = useView(({ isDistant }) => isDistant);
  const isVisible = useView((view) => isInView(view, rect));
  if (isDistant) return <DistantState id={id} />;
  return (
    <div className="live">
      {isVisible && (isZoomedOut ? <CompactStats id={id} /> : <DetailedStats id={id} />)}
    </div>
  );
}

/** Colours the card by the state that takes most of the time, which rarely changes. */
function DistantState({ id }: { readonly id: string }) {
  const state = useLive(({ modules }) => {
    const live = modules.get(id);
    return live === undefined ? undefined : (dominantState(live).split(" ")[0] ?? "");
  });
  return <div className="live" data-state={state} />;
}

/** The bar alone, in steps of 10 %: when zoomed out, hundreds of cards rarely re-render. */
function CompactStats({ id }: { readonly id: string }) {
  const busy = useLive(({ modules }) => roundToTens(modules.get(id)?.busy));
  const blocked = useLive(({ modules }) => roundToTens(modules.get(id)?.blocked));
  return <TimeBar busy={busy} starved={100 - busy - blocked} blocked={blocked} />;
}

function roundToTens(percent = 0): number {
  return Math.round(percent / 10) * 10;
}

function DetailedStats({ id }: { readonly id: string }) {
  const live = useLive(({ modules }) => modules.get(id));
  if (live === undefined) return null;
  const { busy, starved, blocked, rate, trace } = live;
  return (
    <>
      <div className="live-row">
        <TimeBar busy={busy} starved={starved} blocked={blocked} />
        <span className="live-word">{dominantState(live)}</span>
      </div>
      <div className="live-row">
        <Sparkline trace={trace} />
        <span className="live-word">{rate.split(" · ")[1] ?? "—"}</span>
      </div>
    </>
  );
}

/** The state that takes most of the module's time, as text. */
function dominantState({ state, busy, starved, blocked }: LiveModule): string {
  if (state === "ended") return "ended";
  const worst = Math.max(busy, starved, blocked);
  if (worst === busy) return `busy ${busy} %`;
  return worst === starved ? `starved ${starved} %` : `blocked ${blocked} %`;
}

/** Throughput of the last minute, the present at the right. */
export function Sparkline({ trace }: { readonly trace: readonly number[] }) {
  const top = Math.max(...trace, 1);
  const first = TRACE_SECONDS - trace.length;
  const points = trace.map((value, i) => `${first + i},${(15 - (value / top) * 14).toFixed(1)}`);
  const at = `0 0 ${TRACE_SECONDS - 1} 16`;
  return (
    <svg className="sparkline" viewBox={at} preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points.join(" ")} />
    </svg>
  );
}

/** Badges for what the engine reports of a module: bottleneck, slow instances, failure. */
export function LiveBadges({ id }: { readonly id: string }) {
  const bottleneck = useLive(({ modules }) => modules.get(id)?.bottleneck);
  const slow = useLive(({ modules }) => modules.get(id)?.slow);
  const failed = useLive(({ run }) => {
    return run?.failure?.module === id ? run.failure.message : undefined;
  });
  return (
    <div className="flags">
      {bottleneck !== undefined && (
        <span className="badge bottleneck" title={bottleneck}>
          bottleneck
        </span>
      )}
      {slow !== undefined && (
        <span className="badge slow" title={`slow: ${slow}`}>
          slow
        </span>
      )}
      {failed !== undefined && (
        <span className="badge wrong" title={failed}>
          failed
        </span>
      )}
    </div>
  );
}
