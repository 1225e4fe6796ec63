// Who holds up the run that is shown, and who of it is slow.

import { useLive } from "./live";
import { factorText } from "./numbers";

/** In the engine's words. */
export function Told() {
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
          <span className="badge bottleneck">bottleneck</span> <bdi>{bottleneck.name}</bdi>
          <span className="quiet why">{bottleneck.why}</span>
        </span>
      )}
      {slow?.map(({ name, factor }) => (
        <span className="told" key={name}>
          <span className="badge slow">slow</span> <bdi>{name}</bdi> {factorText(factor)}
        </span>
      ))}
    </>
  );
}
