// The list of problems: of the file, of the run, and of the flow with links to their modules.

import { told } from "../../document/problem";
import { useLive } from "../state/liveStore";
import { seek, select, useStudio } from "../state/studioStore";
import { showTab } from "../state/viewStore";

/** Problems listed at once; the rest is only counted. */
const SHOWN_MAX = 50;

export function Problems() {
  const { problems, strange, history } = useStudio();
  const failure = useLive(({ run }) => run?.failure);
  const ends = (queue: number | undefined) => history.now.queues[queue ?? -1]?.to;
  return (
    <section className="problems" aria-label="Problems" aria-live="polite">
      {[...new Set(strange.map(told))].slice(0, SHOWN_MAX).map((text) => (
        <p key={text}>In the file: {text}</p>
      ))}
      {failure !== undefined && (
        <button type="button" className="link" onClick={() => showTab("log")}>
          The run has failed: {failure.message}
        </button>
      )}
      {problems.length === 0 && (
        <p className="quiet">Nothing is wrong with what is drawn, as far as it can be told here.</p>
      )}
      {problems.slice(0, SHOWN_MAX).map(({ module, queue, option, ...problem }) => (
        <button
          type="button"
          className="link"
          key={`${module} ${queue} ${option} ${problem.message}`}
          onClick={() => {
            const id = module ?? ends(queue);
            if (queue !== undefined) select(new Set(), new Set([queue]));
            else if (id !== undefined) seek(new Set([id]));
          }}
        >
          {module !== undefined && `${module}: `}
          {told(problem)}
        </button>
      ))}
      {problems.length > SHOWN_MAX && <p>and {problems.length - SHOWN_MAX} more</p>}
    </section>
  );
}
