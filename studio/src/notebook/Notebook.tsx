// The notebook view of a flow and its last run, made of the page's read-only parts.

import { useEffect, useState } from "react";
import { InstanceProgressTable, ModuleProgressTable } from "../app/run/ProgressTables";
import { RunLog } from "../app/run/RunLog";
import { RunReport } from "../app/run/RunReport";
import { RunStateIcon } from "../app/run/RunStateIcon";
import { useLive } from "../app/state/liveStore";
import { useStudio } from "../app/state/studioStore";
import { formatSeconds } from "../app/ui/format";
import { NotebookCanvas } from "./NotebookCanvas";
import type { Command } from "./widgetModel";

type SendCommand = (wish: Command) => void;

export function Notebook({ ask }: { readonly ask: SendCommand }) {
  const hasRun = useLive(({ run }) => run !== undefined);
  return (
    <section className="notebook" aria-label="Flow">
      <NotebookHeader ask={ask} />
      <NotebookCanvas />
      {hasRun && <RunTabs />}
    </section>
  );
}

function NotebookHeader({ ask }: { readonly ask: SendCommand }) {
  const name = useStudio(({ history }) => history.now.name);
  const run = useLive(({ run }) => run);
  const now = useLive(({ progress }) => progress?.seconds);
  const isRunning = run?.state === "running";
  const seconds = isRunning ? now : run?.seconds;
  return (
    <div className="run-head">
      <button
        type="button"
        className="primary"
        disabled={isRunning}
        title="Run the flow in the notebook's process"
        onClick={() => ask("run")}
      >
        ▶ Run
      </button>
      <button
        type="button"
        disabled={!isRunning}
        title="Stop it: no output will appear"
        onClick={() => ask("stop")}
      >
        ■ Stop
      </button>
      <div className="run-told">
        <strong className="run-name">
          {run !== undefined && <RunStateIcon state={run.state} />} {name}
        </strong>
        {run !== undefined && (
          <span className="quiet">
            {run.state} · <span className="number">{formatSeconds(seconds ?? 0)}</span>
          </span>
        )}
      </div>
    </div>
  );
}

type Page = "modules" | "instances" | "report" | "error";

const TITLES: Readonly<Record<Page, string>> = {
  modules: "Modules",
  instances: "Instances and workers",
  report: "Report",
  error: "Error",
};

/** Tabs about the run: progress, and at its end the report or the error. */
function RunTabs() {
  const id = useLive(({ run }) => run?.id);
  const hasReport = useLive(({ run }) => run?.report !== undefined);
  const hasFailed = useLive(({ run }) => run?.failure !== undefined);
  const [chosen, choose] = useState<Page>("modules");
  // biome-ignore lint/correctness/useExhaustiveDependencies: another run begins anew
  useEffect(() => {
    if (hasFailed) choose("error");
    else choose(hasReport ? "report" : "modules");
  }, [id, hasReport, hasFailed]);
  const pages = (Object.keys(TITLES) as Page[]).filter((page) => {
    return (page !== "report" || hasReport) && (page !== "error" || hasFailed);
  });
  return (
    <>
      <div className="tabs" role="tablist">
        {pages.map((page) => (
          <button
            type="button"
            role="tab"
            key={page}
            aria-selected={page === chosen}
            onClick={() => choose(page)}
          >
            {TITLES[page]}
          </button>
        ))}
      </div>
      <div className="dock-page">
        {chosen === "modules" && <ModuleProgressTable />}
        {chosen === "instances" && <InstanceProgressTable />}
        {chosen === "report" && <RunReport />}
        {chosen === "error" && <RunLog />}
      </div>
    </>
  );
}
