// Starts the studio in its page: with the server that has sent it, or alone.

import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { HTTP } from "./app/backend/http";
import { keepChecked } from "./app/checking";
import { keepDraft } from "./app/draft";
import { hearOthers, keepDrafts, lastPath, lookAgain, openPath, rememberPath } from "./app/files";
import { Rescue } from "./app/Rescue";
import { followAddress, useRoute } from "./app/route";
import { followRun, followSelection, hear, rewatch } from "./app/running";
import { meet, useServer } from "./app/server";
import "@xyflow/react/dist/base.css";
import "./app/styles.css";
import "./app/canvas.css";
import "./app/live.css";
import "./app/running.css";

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
