// The canvas viewport: tracks the visible rectangle, fits the flow, draws the background.

import { Background, useReactFlow, useStoreApi } from "@xyflow/react";
import { useEffect } from "react";
import { useLive } from "../state/liveStore";
import { currentFlow, useStudio } from "../state/studioStore";
import { setViewport, useView } from "../state/viewStore";

/** Options of every fitView. */
export const FIT_OPTIONS = { maxZoom: 1, padding: 0.08 };

/** The dot grid; hidden when zoomed out, where the dots are dense and expensive. */
export function CanvasBackground() {
  return useView(({ isZoomedOut }) => isZoomedOut) ? null : <Background gap={20} size={1} />;
}

/** Publishes the visible rectangle and zoom to the view store. */
export function useTrackViewport(): void {
  const canvas = useStoreApi();
  useEffect(() => {
    const update = () => {
      const { transform, width, height } = canvas.getState();
      setViewport(transform, width, height);
    };
    update();
    return canvas.subscribe(update);
  }, [canvas]);
}

/** Fits the view when another flow is loaded and when the dock opens or closes for a run. */
export function useFitOnLoad(): void {
  const { fitView } = useReactFlow();
  const loadCount = useStudio(({ loadCount }) => loadCount);
  const hasRun = useLive(({ run }) => run !== undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: they say when, not what
  useEffect(() => {
    // On an empty canvas the request would wait, and move the first module that is dropped.
    if (currentFlow().modules.length === 0) return;
    const frame = requestAnimationFrame(() => void fitView(FIT_OPTIONS));
    return () => cancelAnimationFrame(frame);
  }, [loadCount, hasRun, fitView]);
}
