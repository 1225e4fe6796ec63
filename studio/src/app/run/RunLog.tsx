// The log of a run and its failure: message, faulty row, traceback. All of it is shown as text.

import type { Failure, FaultyRow } from "../backend/api";
import { useLive } from "../state/liveStore";
import { isReadOnly, useServer } from "../state/serverStore";
import { revealModules, useStudio } from "../state/studioStore";
import { ProblemText } from "../ui/ProblemText";
import { canReplace } from "./outputs";
import { startRun } from "./runControl";

export function RunLog() {
  const run = useLive(({ run }) => run);
  if (run === undefined) return null;
  return (
    <>
      {run.failure !== undefined && <FailureDetails failure={run.failure} />}
      {run.log.length === 0 && run.failure === undefined && <p className="quiet">No output yet.</p>}
      {run.log.length > 0 && <pre className="log">{run.log.join("\n")}</pre>}
    </>
  );
}

function FaultyRowTable({ row }: { readonly row: FaultyRow }) {
  return (
    <>
      <h3>The row</h3>
      <p className="quiet">{row.about}</p>
      <table>
        <tbody>
          {row.values.map(({ column, text }, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two columns may have one name
            <tr key={at}>
              <th scope="row">{column}</th>
              <td>{text ?? <i className="quiet">null</i>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function FailureDetails({ failure }: { readonly failure: Failure }) {
  const { kind, module, traceback, row } = failure;
  return (
    <div className="failure" role="alert">
      <p>
        <span className="badge wrong">{kind}</span>{" "}
        {module !== undefined && (
          <button type="button" className="small" onClick={() => revealModules(new Set([module]))}>
            {module}
          </button>
        )}{" "}
        <ProblemText problem={failure} />
      </p>
      <ReplaceButton failure={failure} />
      {row !== undefined && <FaultyRowTable row={row} />}
      {traceback !== undefined && traceback !== null && (
        <>
          <h3>Traceback</h3>
          <pre>{traceback}</pre>
        </>
      )}
    </div>
  );
}

/** Where a sink has failed because its output is there: permits replacing, and runs again. */
function ReplaceButton({ failure: { module, remedy } }: { readonly failure: Failure }) {
  const sink = useStudio(({ history }) => history.now.modules.find(({ id }) => id === module));
  const mayRun = useServer((server) => server.link === "up" && !isReadOnly(server));
  const isReplaceable = remedy?.includes("overwrite") === true;
  if (sink === undefined || !mayRun || !isReplaceable || !canReplace(sink)) return null;
  return (
    <button type="button" onClick={() => void startRun({ replaced: [sink.id] })}>
      Replace output and run again
    </button>
  );
}
