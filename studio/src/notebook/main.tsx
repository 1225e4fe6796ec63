// A flow in a notebook: what anywidget calls for every place that shows it. All of it is drawn in a
// shadow root, so that neither the notebook's styles nor ours reach the other.

import base from "@xyflow/react/dist/base.css?inline";
import { createRoot } from "react-dom/client";
import canvas from "../app/canvas.css?inline";
import live from "../app/live.css?inline";
import running from "../app/running.css?inline";
import styles from "../app/styles.css?inline";
import { feed, type Model } from "./feed";
import { Notebook } from "./Notebook";
import notebook from "./notebook.css?inline";
import { followTheme } from "./theme";

interface Place {
  readonly model: Model;
  readonly el: HTMLElement;
}

/** Shows the model's flow; gives what ends that. */
export function render({ model, el }: Place): () => void {
  const host = document.createElement("div");
  const shadow = host.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = [base, styles, canvas, live, running, notebook].join("\n");
  const page = document.createElement("div");
  shadow.append(style, page);
  el.append(host);
  const ends = [followTheme(host), feed(model)];
  const root = createRoot(page);
  root.render(<Notebook ask={(wish) => model.send({ wish })} />);
  return () => {
    for (const end of ends) end();
    root.unmount();
    host.remove();
  };
}
