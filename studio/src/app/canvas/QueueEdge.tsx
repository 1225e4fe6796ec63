// The React Flow edge of a queue: fill level as width, colour and text, and its rates. Subscribes
// to its own entry of the live store, so progress does not rebuild the edge list.

import { BaseEdge, type Edge, type EdgeProps, getBezierPath } from "@xyflow/react";
import { memo } from "react";
import { useLive } from "../state/liveStore";
import { isInView, type Part, useView } from "../state/viewStore";

export interface LineData extends Record<string, unknown> {
  /** The key of the output port that feeds it (`portKey`). */
  readonly feed: string;
  /** The queue kind, if it is not the default. */
  readonly kind: string | undefined;
}

export type LineEdge = Edge<LineData, "queue">;

function Line(props: EdgeProps<LineEdge>) {
  const { id, data, markerEnd, interactionWidth = 24 } = props;
  const [path, x, y] = getBezierPath(props);
  const feed = data?.feed ?? "";
  const isSeen = useView((view) => isInView(view, spanOf(props)));
  const level = useLive(({ queues }) => (isSeen ? queues.get(feed)?.level : undefined));
  const isFar = useView(({ isFar }) => isFar);
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
      {level !== undefined && !isFar && <Figures feed={feed} x={x} y={y} />}
    </g>
  );
}

export const QueueLine = memo(Line);

/** The bounding box of an edge with its labels. */
function spanOf({ sourceX, sourceY, targetX, targetY }: EdgeProps<LineEdge>): Part {
  const [left, right] = [Math.min(sourceX, targetX), Math.max(sourceX, targetX)];
  const [top, bottom] = [Math.min(sourceY, targetY), Math.max(sourceY, targetY)];
  return { left, top: top - FIGURES_HEIGHT, right, bottom: bottom + FIGURES_HEIGHT };
}

const FIGURES_HEIGHT = 30;

/** The rates and the fill level of a queue. */
function Figures({
  feed,
  x,
  y,
}: {
  readonly feed: string;
  readonly x: number;
  readonly y: number;
}) {
  const live = useLive(({ queues }) => queues.get(feed));
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
        {(live?.level ?? 0) > 0 ? `${live?.filled} full` : ""}
      </text>
    </>
  );
}
