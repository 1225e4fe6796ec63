// Store of the view: open panels and dialogs, and the visible part of the canvas.

import { create } from "zustand";

export type Side = "modules" | "files" | "runs";
export type Tab = "problems" | "modules" | "instances" | "rows" | "log" | "report";
export type Dialog = "gallery" | "save" | "run" | "perturb";

export interface View {
  readonly side: Side;
  readonly tab: Tab;
  readonly dialog: Dialog | undefined;
  /** Whether the zoom is too small to read figures on the canvas. */
  readonly isFar: boolean;
  readonly part: Part;
}

/** A rectangle in canvas coordinates. */
export interface Part {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export const useView = create<View>(() => ({
  side: "modules",
  tab: "problems",
  dialog: undefined,
  isFar: false,
  part: { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity },
}));

export function showSide(side: Side): void {
  useView.setState({ side });
}

export function showTab(tab: Tab): void {
  useView.setState({ tab });
}

/** Smallest zoom at which figures are drawn. */
const READ_ZOOM_MIN = 0.45;
/** The visible rectangle is rounded outwards to tiles, so that panning rarely changes it. */
const TILE = 150;

/** Sets the visible rectangle from React Flow's transform and size. */
export function showPart(
  [x, y, zoom]: readonly [number, number, number],
  width: number,
  height: number,
): void {
  const { isFar: wasFar, part: before } = useView.getState();
  const isFar = zoom < READ_ZOOM_MIN;
  const part = {
    left: Math.floor(-x / zoom / TILE) * TILE,
    top: Math.floor(-y / zoom / TILE) * TILE,
    right: Math.ceil((width - x) / zoom / TILE) * TILE,
    bottom: Math.ceil((height - y) / zoom / TILE) * TILE,
  };
  const sides = ["left", "top", "right", "bottom"] as const;
  const isSame = isFar === wasFar && sides.every((side) => part[side] === before[side]);
  if (!isSame) useView.setState({ isFar, part });
}

/** Whether a rectangle intersects the visible one. */
export function isInView({ part }: View, { left, top, right, bottom }: Part): boolean {
  return left < part.right && right > part.left && top < part.bottom && bottom > part.top;
}

export function showDialog(dialog: Dialog | undefined): void {
  useView.setState({ dialog });
}
