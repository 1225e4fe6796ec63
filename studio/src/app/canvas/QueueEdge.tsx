// The React Flow edge of a queue: fill level as width, colour and text, and its rates. Subscribes
// to its own entry of the live store, so progress does not rebuild the edge list.

import {
  BaseEdge,
  type Edge,
  type EdgeProps,
  getBezierPath,
  getSmoothStepPath,
} from "@xyflow/react";
import { memo } from "react";
import { useLive } from "../state/liveStore";
import { isInView, type Rect, useView } from "../state/viewStore";

export interface QueueEdgeData extends Record<string, unknown> {
  /** The key of the output port that feeds it (`portKey`). */
  readonly queueKey: string;
  /** The queue kind, if it is not the default. */
  readonly kind: string | undefined;
}

export type FlowEdge = Edge<QueueEdgeData, "queue">;

function Line(props: EdgeProps<FlowEdge>) {
  const { id, data, markerEnd, interactionWidth = 24 } = props;
  // A queue that leads back, as in a folded flow, goes between the rows of cards.
  const isBack = props.targetX < props.sourceX;
  const [path, x, y] = isBack ? getSmoothStepPath(props) : getBezierPath(props);
  const queueKey = data?.queueKey ?? "";
  const isVisible = useView((view) => isInView(view, boundsOf(props)));
  const isZoomedOut = useView(({ isZoomedOut }) => isZoomedOut);
  const isDistant = useView(({ isDistant }) => isDistant);
  const level = useLive(({ queues }) => {
    const found = isVisible ? queues.get(queueKey)?.level : undefined;
    return isDistant && found !== undefined && found < DISTANT_LEVEL_MIN ? 0 : found;
  });
  return (
    <g className="queue" data-level={level}>
      <BaseEdge
        id={id}
        path={path}
        interactionWidth={interactionWidth}
        {...(markerEnd === undefined ? {} : { markerEnd })}
      />
      {level === undefined && data?.kind !== undefined && (
        <text className="queue-label" x={x} y={y - 6}>
          {data.kind}
        </text>
      )}
      {level !== undefined && !isZoomedOut && <Labels queueKey={queueKey} x={x} y={y} />}
    </g>
  );
}

/** From a distance, only queues that are nearly full are wide enough to be seen. */
const DISTANT_LEVEL_MIN = 3;

export const QueueEdge = memo(Line);

/** The bounding box of an edge with its labels. */
function boundsOf({ sourceX, sourceY, targetX, targetY }: EdgeProps<FlowEdge>): Rect {
  const [left, right] = [Math.min(sourceX, targetX), Math.max(sourceX, targetX)];
  const [top, bottom] = [Math.min(sourceY, targetY), Math.max(sourceY, targetY)];
  return { left, top: top - LABELS_HEIGHT, right, bottom: bottom + LABELS_HEIGHT };
}

const LABELS_HEIGHT = 30;

/** The rates and the fill level of a queue. */
function Labels({
  queueKey,
  x,
  y,
}: {
  readonly queueKey: string;
  readonly x: number;
  readonly y: number;
}) {
  const live = useLive(({ queues }) => queues.get(queueKey));
  const [rows, bytes] = live?.rate.split(" · ") ?? [];
  return (
    <>
      <text className="queue-label" x={x} y={y - 20}>
        {rows}
      </text>
      <text className="queue-label" x={x} y={y - 8}>
        {bytes}
      </text>
      <text className="queue-label" x={x} y={y + 16}>
        {(live?.level ?? 0) > 0 ? `${live?.fillText} full` : ""}
      </text>
    </>
  );
}
