// Which panels are open: nothing that a flow or a run would know of.

import { create } from "zustand";

export type Side = "modules" | "files" | "runs";
export type Tab = "problems" | "modules" | "instances" | "rows" | "log" | "report";
export type Dialog = "gallery" | "save" | "run" | "perturb";

export interface View {
  readonly side: Side;
  readonly tab: Tab;
  readonly dialog: Dialog | undefined;
  /** Whether the canvas is seen from so far that its figures could not be read. */
  readonly isFar: boolean;
}

export const useView = create<View>(() => ({
  side: "modules",
  tab: "problems",
  dialog: undefined,
  isFar: false,
}));

export function showSide(side: Side): void {
  useView.setState({ side });
}

export function showTab(tab: Tab): void {
  useView.setState({ tab });
}

/** Smaller than this, figures are not read. */
const READ_ZOOM_MIN = 0.45;

export function showZoom(zoom: number): void {
  const isFar = zoom < READ_ZOOM_MIN;
  if (isFar !== useView.getState().isFar) useView.setState({ isFar });
}

export function showDialog(dialog: Dialog | undefined): void {
  useView.setState({ dialog });
}
