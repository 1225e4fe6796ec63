// A flow as a picture: SVG text with the cards and queues of the canvas, in light colours. It
// needs no page, and a viewer needs neither fonts nor styles from elsewhere.

import { getBezierPath, getSmoothStepPath, Position as Side } from "@xyflow/react";
import type { Flow } from "../../document/flow";
import { groupsOf } from "../../document/groups";
import type { Position } from "../../document/layout";
import type { Specs } from "../../document/specs";
import { decodeId } from "../canvas/canvasId";
import { toEdges, toNodes } from "../canvas/flowGraph";
import { type Box, boxAround } from "../canvas/groupNodes";
import { formatValue, type ModuleNodeData, OPTIONS_MAX } from "../canvas/ModuleNode";
import type { Category } from "../canvas/moduleCategory";
import { CARD_SIZE } from "../state/autoLayout";
import type { EngineCheck } from "../state/studioStore";
import { ICON_PATHS } from "../ui/Icon";

/** The colours of category.css in the light theme. */
const COLOURS: Readonly<Record<Category, string>> = {
  custom: "#a3316f",
  source: "#1d6b52",
  row: "#2458a6",
  group: "#6a3fa8",
  route: "#5d6772",
  sink: "#9a4a10",
};

/** Lines of the queue kinds, as in canvas.css. */
const STROKES: Readonly<Record<string, string>> = {
  broadcast: 'stroke-width="3.2"',
  pairwise: 'stroke-width="1.6" stroke-dasharray="7 4"',
  keyed: 'stroke-width="1.6" stroke-dasharray="2 4"',
};

const MARGIN = 24;
/** Characters that fit into a line of a card, by font. */
const FITTING = { name: 18, text: 28, code: 25 } as const;

export interface PictureInput {
  readonly flow: Flow;
  readonly specs: Specs;
  readonly positions: ReadonlyMap<string, Position>;
  readonly engineCheck: EngineCheck;
}

/** The flow as a file of SVG. */
export function flowPicture({ flow, specs, positions, engineCheck }: PictureInput): string {
  const selectedModules = new Set<string>();
  const nodes = toNodes({ flow, specs, positions, problems: [], selectedModules }, []);
  const at = new Map(nodes.map((node) => [node.id, node]));
  const boxes = groupsOf(flow).map((group) => {
    const corners = group.modules.map((id) => positions.get(id) ?? { x: 0, y: 0 });
    return { group, box: boxAround(corners, group.note) };
  });
  const all = [
    ...nodes.map(({ position }) => ({ ...position, ...CARD_SIZE })),
    ...boxes.map(({ box }) => box),
  ];
  const { x: left, y: top, width: cardsWidth, height: cardsHeight } = boundsOf(all);
  const [width, height] = [cardsWidth + 2 * MARGIN, cardsHeight + 2 * MARGIN];
  const lines = toEdges(flow, specs, new Set(), engineCheck).flatMap((edge) => {
    const [from, to] = [at.get(edge.source), at.get(edge.target)];
    if (from === undefined || to === undefined) return [];
    const [out, into] = [
      portY(from.data.outputs, edge.sourceHandle),
      portY(to.data.inputs, edge.targetHandle),
    ];
    const ends = {
      sourceX: from.position.x + CARD_SIZE.width,
      sourceY: from.position.y + out,
      sourcePosition: Side.Right,
      targetX: to.position.x,
      targetY: to.position.y + into,
      targetPosition: Side.Left,
    };
    const path = ends.targetX < ends.sourceX ? getSmoothStepPath(ends) : getBezierPath(ends);
    const kind = edge.className?.split(" ")[0]?.replace("queue-", "") ?? "";
    const stroke = STROKES[kind] ?? 'stroke-width="1.6"';
    return [`<path d="${path[0]}" ${stroke} fill="none" stroke="#9aa3ad" marker-end="url(#end)"/>`];
  });
  const cards = nodes.map(({ data, position }) => card(data, position));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"`,
    `  viewBox="${left - MARGIN} ${top - MARGIN} ${width} ${height}"`,
    '  font-family="system-ui, sans-serif">',
    `<title>${escapeXml(flow.name)}</title>`,
    '<defs><marker id="end" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto"',
    '  markerUnits="userSpaceOnUse"><path d="M0 0L9 4L0 8z" fill="#9aa3ad"/></marker></defs>',
    `<rect x="${left - MARGIN}" y="${top - MARGIN}" width="100%" height="100%" fill="#f6f7f8"/>`,
    ...boxes.map(({ group: { name, note }, box }) => groupBox(name, note, box)),
    ...lines,
    ...cards,
    "</svg>\n",
  ].join("\n");
}

/** The box of a group, open also if it is folded on the canvas. */
function groupBox(name: string, note: string, { x, y, width, height }: Box): string {
  const letters = Math.floor(width / 6.5);
  return [
    `<g transform="translate(${x} ${y})">`,
    `<rect width="${width}" height="${height}" rx="9" fill="#eceef0" stroke="#9aa3ad"/>`,
    text(18, 20, 13, clip(name, letters), 'font-weight="600" fill="#1c2127"'),
    text(18, 42, 12, clip(note, letters), 'fill="#5d6772"'),
    "</g>",
  ].join("\n");
}

function card(data: ModuleNodeData, { x, y }: Position): string {
  const { module, title, category, icon, inputs, outputs } = data;
  const colour = COLOURS[category];
  const { width, height } = CARD_SIZE;
  const options = [...module.config].slice(0, OPTIONS_MAX);
  return [
    `<g transform="translate(${x} ${y})">`,
    `<rect width="${width}" height="${height}" rx="7" fill="#ffffff" stroke="#9aa3ad"/>`,
    `<rect width="4" height="${height}" rx="2" fill="${colour}"/>`,
    `<path transform="translate(14 6)" d="${ICON_PATHS[icon]}" fill="none" stroke="${colour}"`,
    '  stroke-width="1.4" stroke-linejoin="round"/>',
    text(38, 19, 13, clip(title, FITTING.name), 'font-weight="600" fill="#1c2127"'),
    text(14, 36, 11, clip(module.id, FITTING.text), 'fill="#5d6772"'),
    ...options.map(([name, value], i) => {
      const option = clip(`${name}: ${formatValue(value)}`, FITTING.code);
      return text(14, 51 + 14 * i, 11, option, 'font-family="monospace" fill="#5d6772"');
    }),
    ...inputs.map((name) => port(0, portYOf(inputs, name))),
    ...outputs.map((name) => port(width, portYOf(outputs, name))),
    "</g>",
  ].join("\n");
}

function text(x: number, y: number, size: number, content: string, style: string): string {
  return `<text x="${x}" y="${y}" font-size="${size}" ${style}>${escapeXml(content)}</text>`;
}

function port(x: number, y: number): string {
  return `<circle cx="${x}" cy="${y}" r="4.5" fill="#ffffff" stroke="#9aa3ad" stroke-width="2"/>`;
}

function portYOf(names: readonly string[], name: string): number {
  return (CARD_SIZE.height * (names.indexOf(name) + 1)) / (names.length + 1);
}

/** The height of a port whose name is encoded in an edge's handle. */
function portY(names: readonly string[], handle: string | null | undefined): number {
  return portYOf(names, decodeId(handle ?? ""));
}

/** The smallest box around others. */
function boundsOf(boxes: readonly Box[]): Box {
  const least = (of: (box: Box) => number) =>
    boxes.reduce((found, one) => Math.min(found, of(one)), Infinity);
  if (boxes.length === 0) return { x: 0, y: 0, ...CARD_SIZE };
  const [x, y] = [least((box) => box.x), least((box) => box.y)];
  const width = -least((box) => -box.x - box.width) - x;
  return { x, y, width, height: -least((box) => -box.y - box.height) - y };
}

function clip(text: string, length: number): string {
  const letters = [...text];
  return letters.length <= length ? text : `${letters.slice(0, length - 1).join("")}…`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

/** A text as XML; characters that XML cannot hold are replaced. */
function escapeXml(text: string): string {
  return [...text]
    .map((letter) => (isXml(letter.codePointAt(0) ?? 0) ? letter : "\ufffd"))
    .join("")
    .replace(/[&<>"]/g, (letter) => ENTITIES[letter] ?? letter);
}

/** Whether XML 1.0 allows a character: section 2.2. */
function isXml(code: number): boolean {
  if (code < 0x20) return code === 9 || code === 10 || code === 13;
  return (code < 0xd800 || code > 0xdfff) && code !== 0xfffe && code !== 0xffff;
}
