// Entry point of the notebook widget, called by anywidget for each view. Renders into a shadow
// root, which isolates its styles from the notebook's.

import base from "@xyflow/react/dist/base.css?inline";
import { createRoot } from "react-dom/client";
import canvas from "../app/canvas/canvas.css?inline";
import category from "../app/canvas/category.css?inline";
import groups from "../app/canvas/groups.css?inline";
import live from "../app/canvas/live.css?inline";
import running from "../app/run/run.css?inline";
import styles from "../app/shell/styles.css?inline";
import { Notebook } from "./Notebook";
import notebook from "./notebook.css?inline";
import { followTheme } from "./theme";
import { followModel, type WidgetModel } from "./widgetModel";

interface Place {
  readonly model: WidgetModel;
  readonly el: HTMLElement;
}

/** Renders the model's flow; returns the function that removes it. */
export function render({ model, el }: Place): () => void {
  const host = document.createElement("div");
  const shadow = host.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = [base, styles, canvas, category, groups, live, running, notebook].join("\n");
  const page = document.createElement("div");
  shadow.append(style, page);
  el.append(host);
  const ends = [followTheme(host), followModel(model)];
  const root = createRoot(page);
  root.render(<Notebook ask={(wish) => model.send({ wish })} />);
  return () => {
    for (const end of ends) end();
    root.unmount();
    host.remove();
  };
}
