// The React Flow nodes of a group: a titled box with a note around its modules, and the card that
// stands for them while the group is folded.

import { Handle, type NodeProps, Position } from "@xyflow/react";
import { memo } from "react";
import { changeGroup, type Group } from "../../document/groups";
import { useLive } from "../state/liveStore";
import { edit } from "../state/studioStore";
import { pluralize } from "../ui/format";
import { Icon } from "../ui/Icon";
import type { GroupNode } from "./groupNodes";

/** Folds a group, or unfolds it. */
export function foldGroup({ position, isFolded, name }: Group): void {
  edit(`${isFolded ? "unfold" : "fold"} ${name}`, (flow) =>
    changeGroup(flow, position, { isFolded: !isFolded }),
  );
}

function Box({ data: { group }, selected }: NodeProps<GroupNode>) {
  return (
    <div className="group-box" data-selected={selected}>
      <div className="group-head">
        <FoldButton group={group} />
        <span className="group-name">{group.name}</span>
      </div>
      {group.note !== "" && (
        <p className="group-note" title={group.note}>
          {group.note}
        </p>
      )}
    </div>
  );
}

function Folded({ data: { group, problem }, selected }: NodeProps<GroupNode>) {
  const { name, note, modules } = group;
  return (
    <div className="card group-card" data-selected={selected} data-wrong={problem !== undefined}>
      <div className="card-head">
        <FoldButton group={group} />
        <span className="card-name">{name}</span>
        {problem !== undefined && (
          <span className="badge wrong" title={problem}>
            !
          </span>
        )}
      </div>
      <GroupBadges group={group} />
      <div className="card-id">{pluralize(modules.length, "module")}</div>
      <div className="card-id" title={note}>
        {note}
      </div>
      <Handle id="in" type="target" position={Position.Left} isConnectable={false} />
      <Handle id="out" type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
}

export const GroupBox = memo(Box);
export const FoldedGroup = memo(Folded);

function FoldButton({ group }: { readonly group: Group }) {
  const what = group.isFolded ? "Unfold" : "Fold";
  return (
    <button
      type="button"
      className="fold nodrag"
      aria-label={`${what} ${group.name}`}
      aria-expanded={!group.isFolded}
      title={`${what} (F)`}
      tabIndex={-1}
      onClick={(event) => {
        event.stopPropagation();
        foldGroup(group);
      }}
    >
      <Icon name={group.isFolded ? "unfold" : "fold"} />
    </button>
  );
}

/** What the engine reports of a folded module: bottleneck, slow instances, failure. */
function GroupBadges({ group: { modules } }: { readonly group: Group }) {
  const bottleneck = useLive((live) => {
    return modules.find((id) => live.modules.get(id)?.bottleneck !== undefined);
  });
  const slow = useLive((live) => modules.find((id) => live.modules.get(id)?.slow !== undefined));
  const failed = useLive(({ run }) => modules.find((id) => run?.failure?.module === id));
  return (
    <div className="flags">
      {bottleneck !== undefined && (
        <span className="badge bottleneck" title={bottleneck}>
          bottleneck
        </span>
      )}
      {slow !== undefined && (
        <span className="badge slow" title={slow}>
          slow
        </span>
      )}
      {failed !== undefined && (
        <span className="badge wrong" title={failed}>
          failed
        </span>
      )}
    </div>
  );
}
