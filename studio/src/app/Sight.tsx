// What of a drawing is in view: its paper, and all of the flow when there is another one.

import { Background, useReactFlow, useStoreApi } from "@xyflow/react";
import { useEffect } from "react";
import { useLive } from "./live";
import { useStudio } from "./studio";
import { showPart, useView } from "./view";

/** How all of a flow is shown. */
export const FIT = { maxZoom: 1, padding: 0.08 };

/** Dots to see distances by; from far they are many, close, and no help. */
export function Paper() {
  return useView(({ isFar }) => isFar) ? null : <Background gap={20} size={1} />;
}

/** Tells what of the drawing is in view. */
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

/** Shows all of the flow when another was begun, and when the canvas has made room for a run. */
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
