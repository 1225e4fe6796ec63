// Entry point of the page: connects to the server if there is one, and renders the app.

import { createRoot } from "react-dom/client";
import { httpBackend } from "./app/backend/httpBackend";
import { startBrowserDraft } from "./app/files/browserDraft";
import { startDraftAutosave } from "./app/files/draftAutosave";
import {
  followOtherTabs,
  lastPath,
  openPath,
  persistLastPath,
  recheckFiles,
} from "./app/files/openFile";
import { followRoute, followSelection, handleEvent, reloadRun } from "./app/run/runControl";
import { App } from "./app/shell/App";
import { ErrorBoundary } from "./app/shell/ErrorBoundary";
import { startEngineChecks } from "./app/state/engineCheck";
import { syncRouteWithUrl, useRoute } from "./app/state/routeStore";
import { connectServer, useServer } from "./app/state/serverStore";
import "@xyflow/react/dist/base.css";
import "./app/shell/styles.css";
import "./app/code/code.css";
import "./app/canvas/canvas.css";
import "./app/canvas/category.css";
import "./app/canvas/live.css";
import "./app/canvas/groups.css";
import "./app/run/run.css";
import "./app/compare/compare.css";
import "./app/inspector/sql.css";
import "./app/shell/layout.css";

syncRouteWithUrl();
startBrowserDraft(window.localStorage);
const root = document.getElementById("studio");
if (root !== null) {
  createRoot(root).render(
    <ErrorBoundary>
      <App />
    </ErrorBoundary>,
  );
}
const catchUp = () => {
  reloadRun();
  recheckFiles();
};
if (await connectServer(httpBackend, handleEvent, catchUp)) {
  const { file } = useRoute.getState();
  const path = file ?? lastPath() ?? useServer.getState().session?.flow;
  persistLastPath();
  if (path) await openPath(path);
  startDraftAutosave();
  followOtherTabs();
  startEngineChecks();
  followRoute();
  followSelection();
}
