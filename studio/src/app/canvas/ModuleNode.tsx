// The React Flow node of a module: its title, id, options or live statistics, and ports.

import { Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { memo } from "react";
import { attachProblem } from "../../document/check";
import { queueBetween } from "../../document/edits";
import { type Module, variableName } from "../../document/flow";
import { isList, isObject, type Json, printOnOneLine } from "../../document/json";
import { problemText } from "../../document/problem";
import { CARD_SIZE } from "../state/autoLayout";
import { useLive } from "../state/liveStore";
import { useStudio } from "../state/studioStore";
import type { Rect } from "../state/viewStore";
import { Icon, type IconName } from "../ui/Icon";
import { encodeId } from "./canvasId";
import { LiveBadges, LiveStats } from "./LiveStats";
import type { Category } from "./moduleCategory";

export interface ModuleNodeData extends Record<string, unknown> {
  readonly module: Module;
  /** The name of the module, or of the custom module that it runs. */
  readonly title: string;
  readonly category: Category;
  readonly icon: IconName;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** The text of its problem. */
  readonly problem: string | undefined;
}

export type FlowNode = Node<ModuleNodeData, "module">;

type Props = NodeProps<FlowNode>;

/** Options shown on a card. */
export const OPTIONS_MAX = 2;

function Card({ data, selected, positionAbsoluteX: left, positionAbsoluteY: top }: Props) {
  const { module, title, category, icon, inputs, outputs, problem } = data;
  const { count, per_worker, workers } = module;
  const instances = count ?? per_worker;
  // Live statistics take the place of the options, so that the card keeps its size.
  const isLive = useLive(({ modules }) => modules.has(module.id));
  const options = isLive ? [] : [...module.config].slice(0, OPTIONS_MAX);
  return (
    <div
      className="card"
      data-category={category}
      data-selected={selected}
      data-wrong={problem !== undefined}
    >
      <div className="card-head">
        <span className="card-icon">
          <Icon name={icon} />
        </span>
        <span className="card-name">{title}</span>
        {instances !== undefined && (
          <span className="badge" title="instances">
            ×{instances}
            {per_worker !== undefined && "/worker"}
          </span>
        )}
        {workers.length > 0 && (
          <span className="badge" title={`at ${workers.join(", ")}`}>
            @
          </span>
        )}
        {problem !== undefined && (
          <span className="badge wrong" title={problem}>
            !
          </span>
        )}
      </div>
      <LiveBadges id={module.id} />
      <div className="card-id">{module.id}</div>
      {isLive && <LiveStats id={module.id} rect={cardRect(left, top)} />}
      {options.map(([name, value]) => (
        <div className="card-option" key={name}>
          {name}: {formatValue(value)}
        </div>
      ))}
      <Ports id={module.id} direction="inputs" names={inputs} />
      <Ports id={module.id} direction="outputs" names={outputs} />
    </div>
  );
}

export const ModuleNode = memo(Card);

function cardRect(left: number, top: number): Rect {
  return { left, top, right: left + CARD_SIZE.width, bottom: top + CARD_SIZE.height };
}

interface PortsProps {
  readonly id: string;
  readonly direction: "inputs" | "outputs";
  readonly names: readonly string[];
}

function Ports({ id, direction, names }: PortsProps) {
  const isInput = direction === "inputs";
  return names.map((name, i) => (
    <PortHandle key={name} id={id} direction={direction} name={name}>
      <Handle
        id={encodeId(name)}
        type={isInput ? "target" : "source"}
        position={isInput ? Position.Left : Position.Right}
        style={{ top: `${((i + 1) * 100) / (names.length + 1)}%` }}
      />
      {names.length > 1 && (
        <span
          className={`port-name ${direction}`}
          style={{ top: `${((i + 1) * 100) / (names.length + 1)}%` }}
        >
          {name}
        </span>
      )}
    </PortHandle>
  ));
}

interface PortHandleProps {
  readonly id: string;
  readonly direction: "inputs" | "outputs";
  readonly name: string;
  readonly children: React.ReactNode;
}

/** A port; while a connection is drawn that cannot end here, it fades and gives the reason. */
function PortHandle({ id, direction, name, children }: PortHandleProps) {
  const reason = useStudio(({ connecting, history, specs }) => {
    if (connecting === undefined || connecting.direction === direction) return undefined;
    const here = { id, port: name };
    const [from, to] = direction === "inputs" ? [connecting, here] : [here, connecting];
    const problem = attachProblem(history.now, specs, queueBetween(history.now, specs, from, to));
    return problem && problemText(problem);
  });
  return (
    <span className="port" data-impossible={reason !== undefined} title={reason ?? name}>
      {children}
    </span>
  );
}

/** A short text for an option's value. */
export function formatValue(value: Json): string {
  const name = variableName(value);
  if (name !== undefined) return `$${name}`;
  if (typeof value === "string") return value;
  if (isList(value)) return value.map(formatValue).join(", ");
  return isObject(value) ? printOnOneLine(value) : printOnOneLine(value);
}
