// Starts the studio in its page.

import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { keepDraft } from "./app/draft";
import { Rescue } from "./app/Rescue";
import "@xyflow/react/dist/base.css";
import "./app/styles.css";
import "./app/canvas.css";

keepDraft(window.localStorage);
const root = document.getElementById("studio");
if (root !== null) {
  createRoot(root).render(
    <Rescue>
      <App />
    </Rescue>,
  );
}
