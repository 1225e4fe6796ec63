// The header of the run that is shown: state, duration, bottleneck, slow components, buttons.

import type { Flow } from "../../document/flow";
import { writeDocument } from "../../document/writeDocument";
import type { Run } from "../backend/api";
import { actionOf } from "../shell/actions";
import { useLive } from "../state/liveStore";
import { navigate } from "../state/routeStore";
import { isReadOnly, useServer } from "../state/serverStore";
import { edit, useStudio } from "../state/studioStore";
import { showDialog } from "../state/viewStore";
import { formatSeconds, formatTime } from "../ui/format";
import { isolateBidi } from "../ui/isolateBidi";
import { withoutReplacing } from "./outputs";
import { RunStateIcon } from "./RunStateIcon";
import { RunStatus } from "./RunStatus";

export function RunHeader() {
  const run = useLive(({ run }) => run);
  const seconds = useLive(({ progress }) => progress?.seconds);
  const mayAct = useServer((server) => server.link === "up" && !isReadOnly(server));
  if (run === undefined) return null;
  const { name, state, cluster, variables } = run;
  const given = Object.entries(variables).map(([name, value]) =>
    isolateBidi(`${name}=${String(value)}`),
  );
  const isRunning = state === "running";
  const shownSeconds = isRunning ? seconds : run.seconds;
  return (
    <div className="run-head">
      <div className="run-told">
        <strong className="run-name">
          <RunStateIcon state={state} /> <bdi>{name}</bdi>
        </strong>{" "}
        <span className="quiet">
          {[formatTime(run.started), state, cluster, ...given]
            .filter((part) => part !== "")
            .join(" · ")}
        </span>{" "}
        <span className="number">{formatSeconds(shownSeconds ?? 0)}</span> <RunStatus />
        <FlowDiffers run={run} />
      </div>
      <div className="row">
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
        <button type="button" title="Close the run" onClick={() => navigate({})}>
          Close
        </button>
      </div>
    </div>
  );
}

/** Says when the canvas shows another flow than the run's, and offers to load that. */
function FlowDiffers({ run }: { readonly run: Run }) {
  const drawn = useStudio(({ history }) => history.now);
  if (comparedText(drawn) === comparedText(run.flow)) return null;
  return (
    <span className="quiet other">
      What ran is not what is drawn.{" "}
      <button type="button" className="small" onClick={() => edit("draw what ran", () => run.flow)}>
        Draw what ran
      </button>
    </span>
  );
}

/** The document's text without positions and what one run may replace, for comparison. */
function comparedText(flow: Flow): string {
  return writeDocument({ ...withoutReplacing(flow), layout: undefined });
}
