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
  readonly part: Part;
}

/** What of the drawing is in view, in the drawing's own units. */
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

/** Smaller than this, figures are not read. */
const READ_ZOOM_MIN = 0.45;
/** What is in view is known by tiles, so that it changes seldom while the canvas is moved. */
const TILE = 150;

/** Tells what is in view: of what is not, the figures need not be drawn. */
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

/** Whether anything of this may be in view. */
export function isInView({ part }: View, { left, top, right, bottom }: Part): boolean {
  return left < part.right && right > part.left && top < part.bottom && bottom > part.top;
}

export function showDialog(dialog: Dialog | undefined): void {
  useView.setState({ dialog });
}
