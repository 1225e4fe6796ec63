// What a run wrote, and how it failed: what was raised, where, and the first row it was raised by.
// All of it is text, whatever it looks like.

import type { Failure } from "./backend/border";
import { useLive } from "./live";
import { seek } from "./studio";

export function Log() {
  const run = useLive(({ run }) => run);
  if (run === undefined) return null;
  return (
    <>
      {run.failure !== undefined && <Failed failure={run.failure} />}
      {run.log.length === 0 && run.failure === undefined && (
        <p className="quiet">It has written nothing.</p>
      )}
      {run.log.length > 0 && <pre className="log">{run.log.join("\n")}</pre>}
    </>
  );
}

function Failed({ failure }: { readonly failure: Failure }) {
  const { kind, message, module, traceback, row, remedy } = failure;
  return (
    <div className="failure" role="alert">
      <p>
        <span className="badge wrong">{kind}</span>{" "}
        {module !== undefined && (
          <button type="button" className="small" onClick={() => seek(new Set([module]))}>
            {module}
          </button>
        )}{" "}
        {message}
        {remedy !== undefined && <span className="quiet"> {remedy}</span>}
      </p>
      {row !== undefined && row !== null && (
        <>
          <h3>The first row that could not be worked on</h3>
          <pre>{typeof row === "string" ? row : JSON.stringify(row, undefined, 1)}</pre>
        </>
      )}
      {traceback !== undefined && traceback !== null && (
        <>
          <h3>Traceback</h3>
          <pre>{traceback}</pre>
        </>
      )}
    </div>
  );
}
