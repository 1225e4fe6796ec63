// A queue on the canvas: how full it is as its width, its colour and in words, and how much goes
// through it. It subscribes to its own entry: the canvas's list of lines knows nothing of it.

import { BaseEdge, type Edge, type EdgeProps, getBezierPath } from "@xyflow/react";
import { memo } from "react";
import { useLive } from "./live";
import { isInView, type Part, useView } from "./view";

export interface LineData extends Record<string, unknown> {
  /** The output that feeds it, as runs name it. */
  readonly feed: string;
  /** Who gets a batch, where that is not anybody who has time. */
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

/** From one end to the other. */
function spanOf({ sourceX, sourceY, targetX, targetY }: EdgeProps<LineEdge>): Part {
  const [left, right] = [Math.min(sourceX, targetX), Math.max(sourceX, targetX)];
  const [top, bottom] = [Math.min(sourceY, targetY), Math.max(sourceY, targetY)];
  // Its figures stand above it and below.
  return { left, top: top - FIGURES_HEIGHT, right, bottom: bottom + FIGURES_HEIGHT };
}

const FIGURES_HEIGHT = 30;

/** What goes through, and how full it is. */
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
