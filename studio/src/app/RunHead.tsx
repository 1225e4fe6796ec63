// The run that is shown, in one line: how it stands, who is the bottleneck, who is slow; and what
// can be done with it.

import type { Flow } from "../document/flow";
import { write } from "../document/write";
import { actionOf } from "./actions";
import { apart } from "./apart";
import type { Run } from "./backend/border";
import { useLive } from "./live";
import { secondsText, timeText } from "./numbers";
import { go } from "./route";
import { State } from "./State";
import { isReadOnly, useServer } from "./server";
import { edit, useStudio } from "./studio";
import { Told } from "./Told";
import { showDialog } from "./view";

export function RunHead() {
  const run = useLive(({ run }) => run);
  const seconds = useLive(({ progress }) => progress?.seconds);
  const mayAct = useServer((server) => server.link === "up" && !isReadOnly(server));
  if (run === undefined) return null;
  const { name, state, cluster, variables } = run;
  const given = Object.entries(variables).map(([name, value]) => apart(`${name}=${String(value)}`));
  const isRunning = state === "running";
  return (
    <div className="run-head">
      <div className="run-told">
        <strong className="run-name">
          <State state={state} /> <bdi>{name}</bdi>
        </strong>
        <span className="quiet">
          {[timeText(run.started), state, cluster, ...given]
            .filter((part) => part !== "")
            .join(" · ")}
        </span>
        <span className="number">{secondsText((isRunning ? seconds : run.seconds) ?? 0)}</span>
        <Told />
        <Other run={run} />
      </div>
      <div className="row">
        {" "}
        {isRunning && mayAct && (
          <>
            <button type="button" onClick={() => showDialog("perturb")}>
              Slow something…
            </button>
            <button type="button" onClick={actionOf("stop").run}>
              Stop
            </button>
          </>
        )}
        {!isRunning && mayAct && (
          <button type="button" onClick={actionOf("run").run}>
            Run again
          </button>
        )}
        <button type="button" title="Leave the run" onClick={() => go({})}>
          Leave
        </button>
      </div>
    </div>
  );
}

/** What ran need not be what is drawn by now. */
function Other({ run }: { readonly run: Run }) {
  const drawn = useStudio(({ history }) => history.now);
  if (saidBy(drawn) === saidBy(run.flow)) return null;
  return (
    <span className="quiet other">
      What ran is not what is drawn.
      <button type="button" className="small" onClick={() => edit("draw what ran", () => run.flow)}>
        Draw what ran
      </button>
    </span>
  );
}

/** All but where it is drawn. */
function saidBy(flow: Flow): string {
  return write({ ...flow, layout: undefined });
}
