// Which panels are open: nothing that a flow or a run would know of.

import { create } from "zustand";

export type Side = "modules" | "files" | "runs";
export type Tab = "problems" | "modules" | "instances" | "rows" | "log" | "report";
export type Dialog = "gallery" | "save" | "run" | "perturb";

export interface View {
  readonly side: Side;
  readonly tab: Tab;
  readonly dialog: Dialog | undefined;
}

export const useView = create<View>(() => ({
  side: "modules",
  tab: "problems",
  dialog: undefined,
}));

export function showSide(side: Side): void {
  useView.setState({ side });
}

export function showTab(tab: Tab): void {
  useView.setState({ tab });
}

export function showDialog(dialog: Dialog | undefined): void {
  useView.setState({ dialog });
}
