// The dock below the canvas: problems of the flow, and tabs about the run that is shown.

import { useEffect } from "react";
import { told } from "../../document/problem";
import { Instances, Modules } from "../run/ProgressTables";
import { Rows } from "../run/QueueRows";
import { RunHead } from "../run/RunHeader";
import { Log } from "../run/RunLog";
import { ReportPage } from "../run/RunReport";
import { useLive } from "../state/liveStore";
import { useRoute } from "../state/routeStore";
import { refuse, useStudio } from "../state/studioStore";
import { showTab, type Tab, useView } from "../state/viewStore";
import { Problems } from "./ProblemList";

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
      <Refused />
      {hasRun && <RunHead />}
      {hasRun && <Tabs chosen={tab} hasReport={hasReport} />}
      <div className="dock-page">
        <Page tab={tab} />
      </div>
    </section>
  );
}

const TITLES: readonly (readonly [Tab, string])[] = [
  ["problems", "Problems"],
  ["modules", "Modules"],
  ["instances", "Instances and workers"],
  ["rows", "Rows"],
  ["log", "Log"],
  ["report", "Report"],
];

function Tabs({ chosen, hasReport }: { readonly chosen: Tab; readonly hasReport: boolean }) {
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
          {title}
          {tab === "problems" && wrong > 0 && <span className="badge wrong">{wrong}</span>}
        </button>
      ))}
    </div>
  );
}

function Page({ tab }: { readonly tab: Tab }) {
  switch (tab) {
    case "problems":
      return <Problems />;
    case "modules":
      return <Modules />;
    case "instances":
      return <Instances />;
    case "rows":
      return <Rows />;
    case "log":
      return <Log />;
    case "report":
      return <ReportPage />;
  }
}

/** Why the last action was refused; visible on every tab. */
function Refused() {
  const refused = useStudio(({ refused }) => refused);
  if (refused === undefined) return null;
  return (
    <p className="refused" role="alert">
      {told(refused)}
      <button type="button" className="small" onClick={() => refuse(undefined)}>
        Close
      </button>
    </p>
  );
}
