// The flow as the page draws it, to be looked at: nothing can be moved, attached or removed. It is
// as high as the flow needs, since a notebook gives it the width and no height.

import { Controls, ReactFlow, ReactFlowProvider, useReactFlow, useStore } from "@xyflow/react";
import { useEffect } from "react";
import { CARD } from "../app/autolayout";
import { FIT, Paper, useSight, useWhole } from "../app/Sight";
import { useStudio } from "../app/studio";
import { Told } from "../app/Told";
import { useDrawn } from "../app/useDrawn";

/** Above and below the flow: who is slow, badges, figures at a queue. */
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
      // The wheel is the notebook's.
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

/** Shows all of the flow again when the notebook has become wider, or the view is shown at last. */
function useWidth(): void {
  const { fitView } = useReactFlow();
  const width = useStore(({ width }) => width);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it says when, not what
  useEffect(() => {
    const frame = requestAnimationFrame(() => void fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [width, fitView]);
}
