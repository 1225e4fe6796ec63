// The read-only canvas in a notebook, as high as the flow needs: a notebook gives it no height.

import { Controls, ReactFlow, ReactFlowProvider, useReactFlow, useStore } from "@xyflow/react";
import { useEffect } from "react";
import { useFlowGraph } from "../app/canvas/useFlowGraph";
import {
  CanvasBackground,
  FIT_OPTIONS,
  useFitOnLoad,
  useTrackViewport,
} from "../app/canvas/Viewport";
import { RunStatus } from "../app/run/RunStatus";
import { CARD_SIZE } from "../app/state/autoLayout";
import { useStudio } from "../app/state/studioStore";

/** Space above and below the flow for status, badges and queue labels, in pixels. */
const MARGIN = 128;
const HEIGHT_MAX = 460;

export function NotebookCanvas() {
  const places = useStudio(({ positions }) => positions);
  const tops = [...places.values()].map(({ y }) => y);
  const span = tops.length === 0 ? 0 : Math.max(...tops) - Math.min(...tops) + CARD_SIZE.height;
  return (
    <div className="notebook-drawing" style={{ height: Math.min(span + MARGIN, HEIGHT_MAX) }}>
      <ReactFlowProvider>
        <ReadOnlyFlow />
      </ReactFlowProvider>
      <div className="notebook-told" role="status">
        <RunStatus />
      </div>
    </div>
  );
}

function ReadOnlyFlow() {
  const graph = useFlowGraph();
  useFitOnLoad();
  useTrackViewport();
  useFitOnResize();
  return (
    <ReactFlow
      className="canvas"
      {...graph}
      nodesDraggable={false}
      nodesConnectable={false}
      deleteKeyCode={null}
      // The wheel scrolls the notebook.
      zoomOnScroll={false}
      preventScrolling={false}
      minZoom={0.1}
      fitView
      fitViewOptions={FIT_OPTIONS}
    >
      <CanvasBackground />
      <Controls showInteractive={false} orientation="horizontal" />
    </ReactFlow>
  );
}

/** Fits the view when the notebook's width changes or the view becomes visible. */
function useFitOnResize(): void {
  const { fitView } = useReactFlow();
  const width = useStore(({ width }) => width);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it says when, not what
  useEffect(() => {
    const frame = requestAnimationFrame(() => void fitView(FIT_OPTIONS));
    return () => cancelAnimationFrame(frame);
  }, [width, fitView]);
}
