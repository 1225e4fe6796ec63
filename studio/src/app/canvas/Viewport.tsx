// The canvas viewport: tracks the visible rectangle, fits the flow, draws the background.

import { Background, useReactFlow, useStoreApi } from "@xyflow/react";
import { useEffect } from "react";
import { useLive } from "../state/liveStore";
import { useStudio } from "../state/studioStore";
import { showPart, useView } from "../state/viewStore";

/** Options of every fitView. */
export const FIT = { maxZoom: 1, padding: 0.08 };

/** The dot grid; hidden when zoomed out, where the dots are dense and expensive. */
export function Paper() {
  return useView(({ isFar }) => isFar) ? null : <Background gap={20} size={1} />;
}

/** Publishes the visible rectangle and zoom to the view store. */
export function useSight(): void {
  const canvas = useStoreApi();
  useEffect(() => {
    const look = () => {
      const { transform, width, height } = canvas.getState();
      showPart(transform, width, height);
    };
    look();
    return canvas.subscribe(look);
  }, [canvas]);
}

/** Fits the view when another flow is loaded and when the dock opens or closes for a run. */
export function useWhole(): void {
  const { fitView } = useReactFlow();
  const begun = useStudio(({ begun }) => begun);
  const hasRun = useLive(({ run }) => run !== undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: they say when, not what
  useEffect(() => {
    const frame = requestAnimationFrame(() => void fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [begun, hasRun, fitView]);
}
