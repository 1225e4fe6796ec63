// The list of problems: of the file, of the run, and of the flow with links to their modules.

import { problemText } from "../../document/problem";
import { useLive } from "../state/liveStore";
import { revealModules, revealOption, setSelection, useStudio } from "../state/studioStore";
import { openPanel, showTab } from "../state/viewStore";
import { ProblemText } from "../ui/ProblemText";

/** Problems listed at once; the rest is only counted. */
const PROBLEMS_SHOWN_MAX = 50;

export function ProblemList() {
  const { problems, openProblems, history } = useStudio();
  const failure = useLive(({ run }) => run?.failure);
  const ends = (queue: number | undefined) => history.now.queues[queue ?? -1]?.to;
  return (
    <section className="problems" aria-label="Problems" aria-live="polite">
      {[...new Set(openProblems.map(problemText))].slice(0, PROBLEMS_SHOWN_MAX).map((text) => (
        <p key={text}>In the file: {text}</p>
      ))}
      {failure !== undefined && (
        <button type="button" className="link" onClick={() => showTab("log")}>
          The run has failed: <ProblemText problem={failure} />
        </button>
      )}
      {problems.length === 0 && <p className="quiet">No problems.</p>}
      {problems.slice(0, PROBLEMS_SHOWN_MAX).map(({ module, queue, option, ...problem }) => (
        <button
          type="button"
          className="link"
          key={`${module} ${queue} ${option} ${problem.message}`}
          onClick={() => {
            const id = module ?? ends(queue);
            if (queue !== undefined) setSelection(new Set(), new Set([queue]));
            else if (id !== undefined) revealModules(new Set([id]));
            if (module !== undefined && option !== undefined) revealOption({ module, option });
            if (id !== undefined) openPanel("right");
          }}
        >
          {module !== undefined && `${module}: `}
          <ProblemText problem={problem} />
        </button>
      ))}
      {problems.length > PROBLEMS_SHOWN_MAX && (
        <p>and {problems.length - PROBLEMS_SHOWN_MAX} more</p>
      )}
    </section>
  );
}
