// Menus for options that list columns: a row for each key, and a menu that adds one.

import {
  type JoinKey,
  readJoinKey,
  readSortKey,
  SORT_ORDERS,
  type SortKey,
  writeJoinKey,
  writeSortKey,
} from "../../document/forms/sortKey";
import { isList, type Json } from "../../document/json";
import { endStep } from "../state/studioStore";

export type KeyKind = "column" | "sort" | "join";

/** The options that are lists of columns, by module. */
const KEY_OPTIONS: Readonly<Record<string, Readonly<Record<string, KeyKind>>>> = {
  aggregate: { by: "column" },
  divide: { by: "sort" },
  join: { on: "join" },
  merge: { by: "sort" },
  partition: { by: "sort" },
  pre_aggregate: { by: "column" },
  save_dataset: { partition_by: "column" },
  sort: { by: "sort" },
  window: { partition_by: "column", order_by: "sort" },
};

export function keyKindOf(module: string, option: string): KeyKind | undefined {
  return KEY_OPTIONS[module]?.[option];
}

export interface ColumnNames {
  readonly left: readonly string[];
  readonly right: readonly string[];
}

interface Props {
  readonly id: string;
  readonly option: string;
  readonly kind: KeyKind;
  readonly value: Json | undefined;
  readonly columns: ColumnNames;
  readonly set: (value: Json | undefined) => void;
}

/** Whether menus can show a value: its keys are plain, and the columns are known. */
export function hasMenus(kind: KeyKind, value: Json | undefined, columns: ColumnNames): boolean {
  if (columns.left.length === 0 || (kind === "join" && columns.right.length === 0)) return false;
  return valuesOf(value).every((one) =>
    kind === "join" ? readJoinKey(one) : readSortKey(one, columns.left),
  );
}

export function KeyMenus({ id, option, kind, value, columns, set }: Props) {
  const keys = valuesOf(value);
  const change = (keys: readonly Json[]) => {
    set(keys.length === 0 ? undefined : keys);
    endStep();
  };
  const replace = (at: number, key: Json) => change(keys.with(at, key));
  const used = new Set(keys.map((key) => columnOf(kind, key, columns)));
  const added = (kind === "join" ? shared(columns) : columns.left).filter((one) => !used.has(one));
  return (
    <div className="keys">
      {keys.map((key, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: keys have no id but their position
        <div className="key" key={at}>
          {kind === "join" ? (
            <JoinMenus
              name={`${option} ${at + 1}`}
              value={key}
              columns={columns}
              set={(key) => replace(at, key)}
            />
          ) : (
            <SortMenus
              name={`${option} ${at + 1}`}
              value={key}
              columns={columns.left}
              hasOrder={kind === "sort"}
              set={(key) => replace(at, key)}
            />
          )}
          <button
            type="button"
            className="small"
            aria-label={`Remove ${option} ${at + 1}`}
            onClick={() => change(keys.toSpliced(at, 1))}
          >
            ×
          </button>
        </div>
      ))}
      <select
        id={id}
        value=""
        onChange={({ target }) => target.value !== "" && change([...keys, target.value])}
      >
        <option value="">{keys.length === 0 ? "Choose a column…" : "Add a column…"}</option>
        {added.map((name) => (
          <option key={name}>{name}</option>
        ))}
        {kind === "join" && added.length === 0 && columns.left[0] !== undefined && (
          <option value={columns.left[0]}>two columns of different names</option>
        )}
      </select>
    </div>
  );
}

interface RowProps {
  readonly name: string;
  readonly value: Json;
  readonly set: (value: Json) => void;
}

function SortMenus({
  name,
  value,
  columns,
  hasOrder,
  set,
}: RowProps & { readonly columns: readonly string[]; readonly hasOrder: boolean }) {
  const key: SortKey = readSortKey(value, columns) ?? { column: String(value), order: "" };
  const write = (change: Partial<SortKey>) => set(writeSortKey({ ...key, ...change }));
  return (
    <>
      <ColumnSelect
        name={name}
        value={key.column}
        columns={columns}
        set={(column) => write({ column })}
      />
      {hasOrder && (
        <select
          aria-label={`Order of ${name}`}
          value={key.order}
          onChange={({ target }) => write({ order: target.value })}
        >
          {SORT_ORDERS.map((order) => (
            <option key={order} value={order}>
              {ORDER_TITLES[order]}
            </option>
          ))}
        </select>
      )}
    </>
  );
}

const ORDER_TITLES: Readonly<Record<string, string>> = {
  "": "ascending",
  desc: "descending",
  "nulls first": "ascending, nulls first",
  "desc nulls first": "descending, nulls first",
};

function JoinMenus({ name, value, columns, set }: RowProps & { readonly columns: ColumnNames }) {
  const key: JoinKey = readJoinKey(value) ?? { left: "", right: "" };
  const write = (change: Partial<JoinKey>) => set(writeJoinKey({ ...key, ...change }));
  return (
    <>
      <ColumnSelect
        name={`${name}, left`}
        value={key.left}
        columns={columns.left}
        set={(left) => write({ left })}
      />
      <span aria-hidden="true">=</span>
      <ColumnSelect
        name={`${name}, right`}
        value={key.right}
        columns={columns.right}
        set={(right) => write({ right })}
      />
    </>
  );
}

interface SelectProps {
  readonly name: string;
  readonly value: string;
  readonly columns: readonly string[];
  readonly set: (column: string) => void;
}

function ColumnSelect({ name, value, columns, set }: SelectProps) {
  const isKnown = columns.includes(value);
  return (
    <select
      aria-label={name}
      aria-invalid={!isKnown}
      value={value}
      onChange={({ target }) => set(target.value)}
    >
      {!isKnown && <option value={value}>{value} (not in the input)</option>}
      {columns.map((column) => (
        <option key={column}>{column}</option>
      ))}
    </select>
  );
}

function valuesOf(value: Json | undefined): readonly Json[] {
  if (value === undefined || value === null) return [];
  return isList(value) ? value : [value];
}

/** The column of a key, for a join that of the left. */
function columnOf(kind: KeyKind, key: Json, { left }: ColumnNames): string | undefined {
  return kind === "join" ? readJoinKey(key)?.left : readSortKey(key, left)?.column;
}

function shared({ left, right }: ColumnNames): readonly string[] {
  return left.filter((name) => right.includes(name));
}
