// The read-only canvas in a notebook, as high as the flow needs: a notebook gives it no height.

import { Controls, ReactFlow, ReactFlowProvider, useReactFlow, useStore } from "@xyflow/react";
import { useEffect } from "react";
import { useDrawn } from "../app/canvas/useFlowGraph";
import { FIT, Paper, useSight, useWhole } from "../app/canvas/Viewport";
import { Told } from "../app/run/RunStatus";
import { CARD } from "../app/state/autoLayout";
import { useStudio } from "../app/state/studioStore";

/** Space above and below the flow for status, badges and queue labels, in pixels. */
const ROOM = 128;
const HEIGHT_MAX = 460;

export function Drawing() {
  const places = useStudio(({ places }) => places);
  const tops = [...places.values()].map(({ y }) => y);
  const span = tops.length === 0 ? 0 : Math.max(...tops) - Math.min(...tops) + CARD.height;
  return (
    <div className="notebook-drawing" style={{ height: Math.min(span + ROOM, HEIGHT_MAX) }}>
      <ReactFlowProvider>
        <Cards />
      </ReactFlowProvider>
      <div className="notebook-told" role="status">
        <Told />
      </div>
    </div>
  );
}

function Cards() {
  const drawn = useDrawn();
  useWhole();
  useSight();
  useWidth();
  return (
    <ReactFlow
      className="canvas"
      {...drawn}
      nodesDraggable={false}
      nodesConnectable={false}
      deleteKeyCode={null}
      // The wheel scrolls the notebook.
      zoomOnScroll={false}
      preventScrolling={false}
      minZoom={0.1}
      fitView
      fitViewOptions={FIT}
    >
      <Paper />
      <Controls showInteractive={false} orientation="horizontal" />
    </ReactFlow>
  );
}

/** Fits the view when the notebook's width changes or the view becomes visible. */
function useWidth(): void {
  const { fitView } = useReactFlow();
  const width = useStore(({ width }) => width);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it says when, not what
  useEffect(() => {
    const frame = requestAnimationFrame(() => void fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [width, fitView]);
}
