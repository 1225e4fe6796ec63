// The menu of connections below a path: a chosen one gives the module its storage options.

import { useId } from "react";
import { setOption } from "../../document/configEdits";
import { type Module, variableName } from "../../document/flow";
import { storageOptions } from "../../document/forms/connections";
import { isObject, sameJson } from "../../document/json";
import { useConnections } from "../state/connectionStore";
import { useServer } from "../state/serverStore";
import { edit, endStep, useStudio } from "../state/studioStore";
import { showDialog } from "../state/viewStore";

/** The option of a module that connections fill. */
export const STORAGE_OPTION = "storage_options";

const OWN = "own";

export function ConnectionSelect({ module }: { readonly module: Module }) {
  const id = useId();
  const hasServer = useServer(({ backend }) => backend !== undefined);
  const all = useConnections(({ connections }) => connections);
  const variables = useStudio(({ history }) => history.now.variables);
  const stores = all.filter(({ kind }) => kind !== "cluster");
  const path = module.config.get("path");
  const address = variables.get(variableName(path) ?? "")?.default ?? path;
  const isRemote = typeof address === "string" && /^[a-z0-9]+:\/\//.test(address);
  const options = module.config.get(STORAGE_OPTION) ?? undefined;
  const isSet = options !== undefined && !(isObject(options) && options.size === 0);
  if (!hasServer || !(isRemote || isSet || stores.length > 0)) return null;
  const chosen = stores.find((one) => isSet && sameJson(options, storageOptions(one)));
  return (
    <div className="field">
      <label htmlFor={id}>Connection</label>
      <div className="row">
        <select
          id={id}
          value={chosen?.name ?? (isSet ? OWN : "")}
          onChange={({ target }) => {
            const found = stores.find(({ name }) => name === target.value);
            const value = found === undefined ? undefined : storageOptions(found);
            edit(`connect ${module.id}`, (flow) => {
              return setOption(flow, module.id, STORAGE_OPTION, value);
            });
            endStep();
          }}
        >
          <option value="">that of the environment</option>
          {isSet && chosen === undefined && <option value={OWN}>its own options, below</option>}
          {stores.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
        <button type="button" onClick={() => showDialog("connections")}>
          Connections…
        </button>
      </div>
    </div>
  );
}
