// The dock below the canvas: problems of the flow, and tabs about the run that is shown.

import { useEffect } from "react";
import { InstanceProgressTable, ModuleProgressTable } from "../run/ProgressTables";
import { QueueRows } from "../run/QueueRows";
import { RunHeader } from "../run/RunHeader";
import { RunLog } from "../run/RunLog";
import { RunReport } from "../run/RunReport";
import { useLive } from "../state/liveStore";
import { useRoute } from "../state/routeStore";
import { setRefusal, useStudio } from "../state/studioStore";
import { type DockTab, showTab, useView } from "../state/viewStore";
import { ProblemText } from "../ui/ProblemText";
import { ProblemList } from "./ProblemList";

export function Dock() {
  const hasRun = useLive(({ run }) => run !== undefined);
  const hasReport = useLive(({ run }) => run?.report !== undefined);
  const hasFailed = useLive(({ run }) => run?.failure !== undefined);
  const chosen = useView(({ tab }) => tab);
  const run = useRoute(({ run }) => run);
  const queue = useRoute(({ queue }) => queue);
  useEffect(() => {
    if (run === undefined) showTab("problems");
    else showTab(queue === undefined ? "modules" : "rows");
  }, [run, queue]);
  useEffect(() => {
    if (hasFailed) showTab("log");
    else if (hasReport) showTab("report");
  }, [hasFailed, hasReport]);
  const tab = hasRun ? chosen : "problems";
  return (
    <section className="dock" aria-label="Problems and runs" data-run={hasRun}>
      <RefusalAlert />
      {hasRun && <RunHeader />}
      {hasRun && <Tabs chosen={tab} hasReport={hasReport} />}
      <div className="dock-page">
        <Page tab={tab} />
      </div>
    </section>
  );
}

const TITLES: readonly (readonly [DockTab, string])[] = [
  ["problems", "Problems"],
  ["modules", "Modules"],
  ["instances", "Instances and workers"],
  ["rows", "Rows"],
  ["log", "Log"],
  ["report", "Report"],
];

function Tabs({ chosen, hasReport }: { readonly chosen: DockTab; readonly hasReport: boolean }) {
  const wrong = useStudio(({ problems }) => problems.length);
  return (
    <div className="tabs" role="tablist">
      {TITLES.filter(([tab]) => tab !== "report" || hasReport).map(([tab, title]) => (
        <button
          type="button"
          role="tab"
          key={tab}
          aria-selected={tab === chosen}
          onClick={() => showTab(tab)}
        >
          {title} {tab === "problems" && wrong > 0 && <span className="badge wrong">{wrong}</span>}
        </button>
      ))}
    </div>
  );
}

function Page({ tab }: { readonly tab: DockTab }) {
  switch (tab) {
    case "problems":
      return <ProblemList />;
    case "modules":
      return <ModuleProgressTable />;
    case "instances":
      return <InstanceProgressTable />;
    case "rows":
      return <QueueRows />;
    case "log":
      return <RunLog />;
    case "report":
      return <RunReport />;
  }
}

/** Why the last action was refused; visible on every tab. */
function RefusalAlert() {
  const refused = useStudio(({ refusal }) => refusal);
  if (refused === undefined) return null;
  return (
    <p className="refused" role="alert">
      <span>
        <ProblemText problem={refused} />
      </span>
      <button type="button" className="small" onClick={() => setRefusal(undefined)}>
        Close
      </button>
    </p>
  );
}
