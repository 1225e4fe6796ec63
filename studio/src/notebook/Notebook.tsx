// A flow and its last run, to be looked at: the page's own parts, without what edits.

import { useEffect, useState } from "react";
import { Log } from "../app/Log";
import { useLive } from "../app/live";
import { secondsText } from "../app/numbers";
import { ReportPage } from "../app/ReportPage";
import { State } from "../app/State";
import { useStudio } from "../app/studio";
import { Instances, Modules } from "../app/Tables";
import { Drawing } from "./Drawing";
import type { Wish } from "./feed";

type Ask = (wish: Wish) => void;

export function Notebook({ ask }: { readonly ask: Ask }) {
  const hasRun = useLive(({ run }) => run !== undefined);
  return (
    <section className="notebook" aria-label="Flow">
      <Head ask={ask} />
      <Drawing />
      {hasRun && <Pages />}
    </section>
  );
}

function Head({ ask }: { readonly ask: Ask }) {
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
          {run !== undefined && <State state={run.state} />} {name}
        </strong>
        {run !== undefined && (
          <span className="quiet">
            {run.state} · <span className="number">{secondsText(seconds ?? 0)}</span>
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

/** What the run does, in numbers; at its end, what it was. */
function Pages() {
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
        {chosen === "modules" && <Modules />}
        {chosen === "instances" && <Instances />}
        {chosen === "report" && <ReportPage />}
        {chosen === "error" && <Log />}
      </div>
    </>
  );
}
