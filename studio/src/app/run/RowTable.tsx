// A table of sampled rows. All cells are shown as text.

import type { RowSample } from "../backend/api";
import { pluralize } from "../ui/format";

export function RowTable({ sample }: { readonly sample: RowSample }) {
  const { schema, rows, nulls = [] } = sample;
  // Column names need not be unique.
  const columns = schema.map((column, at) => ({ ...column, key: `${at} ${column.name}` }));
  return (
    <table className="table rows">
      <thead>
        <tr>
          {columns.map(({ key, name, type }, i) => (
            <th key={key}>
              {name}
              <span className="quiet">
                {" "}
                {type}
                {(nulls[i] ?? 0) > 0 && `, ${pluralize(nulls[i] ?? 0, "null")}`}
              </span>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows have no id but their position
          <tr key={i}>
            {row.map((cell, column) => (
              <td key={columns[column]?.key}>{cell ?? <span className="quiet">null</span>}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
