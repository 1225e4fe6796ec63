// The bar below the canvas: zoom, fit, and the map of a large flow. Beside the canvas, so that it
// covers no module.

import { MiniMap, useReactFlow, useStore } from "@xyflow/react";
import { useStudio } from "../state/studioStore";
import { Icon } from "../ui/Icon";
import { FIT_OPTIONS } from "./Viewport";

/** Smallest flow that shows the map. */
const MAP_MODULES_MIN = 12;
const MAP_SIZE = { width: 180, height: 64 };

export function CanvasBar() {
  const { zoomIn, zoomOut, fitView } = useReactFlow();
  const percent = useStore(({ transform }) => Math.round(transform[2] * 100));
  const hasMap = useStudio(({ history }) => history.now.modules.length >= MAP_MODULES_MIN);
  return (
    <div className="canvas-bar">
      <button type="button" aria-label="Zoom Out" title="Zoom out" onClick={() => void zoomOut()}>
        <Icon name="minus" />
      </button>
      <span className="zoom">{percent} %</span>
      <button type="button" aria-label="Zoom In" title="Zoom in" onClick={() => void zoomIn()}>
        <Icon name="plus" />
      </button>
      <button type="button" aria-label="Fit View" onClick={() => void fitView(FIT_OPTIONS)}>
        <Icon name="fit" /> Fit
      </button>
      {hasMap && (
        <MiniMap
          pannable
          zoomable
          style={MAP_SIZE}
          nodeClassName={({ type = "" }) => type}
          ariaLabel="The whole flow, small"
        />
      )}
    </div>
  );
}
