// The bottleneck and the slow components of the run that is shown.

import { useLive } from "../state/liveStore";
import { formatFactor } from "../ui/format";

/** Badges with the engine's own explanations. */
export function RunStatus() {
  const bottleneck = useLive(({ progress, run }) => {
    return run?.state === "running" ? progress?.bottleneck : undefined;
  });
  const slow = useLive(({ progress, run }) => {
    return run?.state === "running" ? progress?.slow : undefined;
  });
  return (
    <>
      {bottleneck && (
        <span className="told" title={bottleneck.why}>
          <span className="badge bottleneck">bottleneck</span> <bdi>{bottleneck.name}</bdi>{" "}
          <span className="quiet why">{bottleneck.why}</span>
        </span>
      )}
      {slow?.map(({ name, factor }) => (
        <span className="told" key={name}>
          <span className="badge slow">slow</span> <bdi>{name}</bdi> {formatFactor(factor)}
        </span>
      ))}
    </>
  );
}
