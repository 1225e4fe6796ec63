// Entry point of the page: connects to the server if there is one, and renders the app.

import { createRoot } from "react-dom/client";
import { HTTP } from "./app/backend/httpBackend";
import { keepDraft } from "./app/files/browserDraft";
import { keepDrafts } from "./app/files/draftAutosave";
import { hearOthers, lastPath, lookAgain, openPath, rememberPath } from "./app/files/openFile";
import { followRun, followSelection, hear, rewatch } from "./app/run/runControl";
import { App } from "./app/shell/App";
import { Rescue } from "./app/shell/ErrorBoundary";
import { keepChecked } from "./app/state/engineCheck";
import { followAddress, useRoute } from "./app/state/routeStore";
import { meet, useServer } from "./app/state/serverStore";
import "@xyflow/react/dist/base.css";
import "./app/shell/styles.css";
import "./app/code/code.css";
import "./app/canvas/canvas.css";
import "./app/canvas/live.css";
import "./app/run/run.css";

followAddress();
keepDraft(window.localStorage);
const root = document.getElementById("studio");
if (root !== null) {
  createRoot(root).render(
    <Rescue>
      <App />
    </Rescue>,
  );
}
const catchUp = () => {
  rewatch();
  lookAgain();
};
if (await meet(HTTP, hear, catchUp)) {
  const { file } = useRoute.getState();
  const path = file ?? lastPath() ?? useServer.getState().session?.flow;
  rememberPath();
  if (path) await openPath(path);
  keepDrafts();
  hearOthers();
  keepChecked();
  followRun();
  followSelection();
}
