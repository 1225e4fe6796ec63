// Store of the view: open panels and dialogs, and the visible part of the canvas.

import { create } from "zustand";

export type SidePanel = "modules" | "files" | "runs";
export type DockTab = "problems" | "modules" | "instances" | "rows" | "log" | "report";
export type Dialog =
  | "connections"
  | "gallery"
  | "save"
  | "run"
  | "perturb"
  | "preview"
  | "replace"
  | "export"
  | "script";

export type Panel = "left" | "right" | "dock";

/** The width to height of the canvas of a wide page, nearly. */
const WIDE_ASPECT = 1.3;

/** Narrower pages begin with the canvas alone; their panels lie over it. */
const NARROW_PX = 900;
const isWide = typeof window !== "object" || (window.innerWidth ?? NARROW_PX) >= NARROW_PX;

/** The width to height that an automatic layout aims at; a narrow page is mostly canvas. */
export function canvasAspect(): number {
  const isNarrow = typeof window === "object" && window.innerWidth < NARROW_PX;
  return isNarrow ? window.innerWidth / (window.innerHeight * 0.8) : WIDE_ASPECT;
}

export interface ViewState {
  readonly side: SidePanel;
  readonly tab: DockTab;
  readonly dialog: Dialog | undefined;
  /** The panels beside the canvas that are open. */
  readonly panels: Readonly<Record<Panel, boolean>>;
  /** Whether the zoom is too small to read figures on the canvas. */
  readonly isZoomedOut: boolean;
  /** Whether it is too small to read names as well. */
  readonly isDistant: boolean;
  readonly visibleRect: Rect;
}

/** A rectangle in canvas coordinates. */
export interface Rect {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export const useView = create<ViewState>(() => ({
  side: "modules",
  tab: "problems",
  dialog: undefined,
  panels: { left: isWide, right: isWide, dock: true },
  isZoomedOut: false,
  isDistant: false,
  visibleRect: { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity },
}));

export function showSidePanel(side: SidePanel): void {
  useView.setState({ side });
  openPanel("left");
}

export function openPanel(panel: Panel): void {
  if (!useView.getState().panels[panel]) togglePanel(panel);
}

/** Opens or closes a panel; on a narrow page, one side closes the other. */
export function togglePanel(panel: Panel): void {
  const { panels } = useView.getState();
  const isOpen = !panels[panel];
  const others = isOpen && panel !== "dock" && window.innerWidth < NARROW_PX;
  const sides = others ? CLOSED_SIDES : {};
  useView.setState({ panels: { ...panels, ...sides, [panel]: isOpen } });
}

const CLOSED_SIDES = { left: false, right: false } as const;

/**
 * Closes both sides while the page is narrow, where they lie over the canvas, and opens those
 * again that were open before; returns the function that stops it.
 */
export function followWidth(): () => void {
  const narrow = window.matchMedia(`(max-width: ${NARROW_PX - 1}px)`);
  let { left, right } = { left: true, right: true };
  let wasNarrow = narrow.matches;
  const follow = () => {
    // Two changes can be reported after the second.
    if (narrow.matches === wasNarrow) return;
    wasNarrow = narrow.matches;
    const { panels } = useView.getState();
    const sides = wasNarrow ? CLOSED_SIDES : { left, right };
    if (wasNarrow) ({ left, right } = panels);
    useView.setState({ panels: { ...panels, ...sides } });
  };
  narrow.addEventListener("change", follow);
  return () => narrow.removeEventListener("change", follow);
}

export function showTab(tab: DockTab): void {
  useView.setState({ tab });
}

/** Smallest zoom at which figures are drawn. */
const READABLE_ZOOM_MIN = 0.45;
/** Smallest zoom at which names and bars are drawn. */
const NAMES_ZOOM_MIN = 0.2;
/** The visible rectangle is rounded outwards to tiles, so that panning rarely changes it. */
const TILE_SIZE = 150;

/** Sets the visible rectangle from React Flow's transform and size. */
export function setViewport(
  [x, y, zoom]: readonly [number, number, number],
  width: number,
  height: number,
): void {
  const last = useView.getState();
  const [isZoomedOut, isDistant] = [zoom < READABLE_ZOOM_MIN, zoom < NAMES_ZOOM_MIN];
  const visibleRect = {
    left: Math.floor(-x / zoom / TILE_SIZE) * TILE_SIZE,
    top: Math.floor(-y / zoom / TILE_SIZE) * TILE_SIZE,
    right: Math.ceil((width - x) / zoom / TILE_SIZE) * TILE_SIZE,
    bottom: Math.ceil((height - y) / zoom / TILE_SIZE) * TILE_SIZE,
  };
  const sides = ["left", "top", "right", "bottom"] as const;
  const isSame =
    isZoomedOut === last.isZoomedOut &&
    isDistant === last.isDistant &&
    sides.every((side) => visibleRect[side] === last.visibleRect[side]);
  if (!isSame) useView.setState({ isZoomedOut, isDistant, visibleRect });
}

/** Whether a rectangle intersects the visible one. */
export function isInView({ visibleRect }: ViewState, { left, top, right, bottom }: Rect): boolean {
  return (
    left < visibleRect.right &&
    right > visibleRect.left &&
    top < visibleRect.bottom &&
    bottom > visibleRect.top
  );
}

export function showDialog(dialog: Dialog | undefined): void {
  useView.setState({ dialog });
}
