// Dialog of the project's connections: the list, and the form of one with its test.

import { useId, useState } from "react";
import {
  CONNECTION_KINDS,
  type Connection,
  type ConnectionField,
  type ConnectionKind,
  connectionProblem,
  fieldProblem,
  KIND_NAMES,
} from "../../document/forms/connections";
import { useConnections } from "../state/connectionStore";
import { isReadOnly, useServer } from "../state/serverStore";
import { showDialog } from "../state/viewStore";
import { Modal } from "../ui/Modal";
import { ValidatedInput } from "../ui/ValidatedInput";
import { keepConnection } from "./keepConnection";
import { type TestOutcome, testConnection } from "./testConnection";

const NEW: Connection = { name: "", kind: "s3", values: new Map() };

export function ConnectionsDialog() {
  const connections = useConnections(({ connections }) => connections);
  const [shown, setShown] = useState<Connection>();
  const mayChange = useServer((server) => server.link === "up" && !isReadOnly(server));
  return (
    <Modal title="Connections" onClose={() => showDialog(undefined)}>
      <p className="quiet">
        Object stores and clusters of this project, kept in connections.json. Keys are names of
        environment variables: no secret is in the file, in a flow or in what is exported.
      </p>
      {shown === undefined ? (
        <>
          {connections.map((one) => (
            <button
              type="button"
              className="entry"
              key={one.name}
              disabled={!mayChange}
              onClick={() => setShown(one)}
            >
              <span className="entry-name">{one.name}</span>
              <span className="entry-summary">{CONNECTION_KINDS[one.kind].title}</span>
            </button>
          ))}
          {connections.length === 0 && <p>None yet.</p>}
          <div className="row">
            <button
              type="button"
              className="primary"
              disabled={!mayChange}
              onClick={() => setShown(NEW)}
            >
              Add a connection
            </button>
            <button type="button" onClick={() => showDialog(undefined)}>
              Close
            </button>
          </div>
        </>
      ) : (
        <ConnectionForm key={shown.name} before={shown} onDone={() => setShown(undefined)} />
      )}
    </Modal>
  );
}

interface FormProps {
  /** The connection that is changed; one without a name is new. */
  readonly before: Connection;
  readonly onDone: () => void;
}

function ConnectionForm({ before, onDone }: FormProps) {
  const [connection, setConnection] = useState(before);
  const all = useConnections(({ connections }) => connections);
  const { name, kind, values } = connection;
  const isTaken = name !== before.name && all.some((one) => one.name === name);
  const problem = connectionProblem(connection);
  const kindId = useId();
  const set = (field: string, value: string) =>
    setConnection({ ...connection, values: new Map([...values, [field, value]]) });
  return (
    <form
      className="fields"
      onSubmit={async (event) => {
        event.preventDefault();
        const isKept = await keepConnection(before.name, { ...connection, name: name.trim() });
        if (isKept) onDone();
      }}
    >
      <ValidatedInput
        label="Name"
        value={name}
        error={isTaken ? "There is a connection of this name." : undefined}
        onValue={(name) => setConnection({ ...connection, name })}
      />
      <div className="field">
        <label htmlFor={kindId}>Kind</label>
        <select
          id={kindId}
          value={kind}
          onChange={({ target }) =>
            setConnection({ ...connection, kind: target.value as ConnectionKind })
          }
        >
          {KIND_NAMES.map((one) => (
            <option key={one} value={one}>
              {CONNECTION_KINDS[one].title}
            </option>
          ))}
        </select>
      </div>
      {CONNECTION_KINDS[kind].fields.map((field) => (
        <ConnectionInput
          key={field.name}
          field={field}
          value={values.get(field.name) ?? ""}
          onValue={(value) => set(field.name, value)}
        />
      ))}
      <ConnectionTest connection={connection} isDisabled={problem !== undefined && name !== ""} />
      <div className="row">
        <button
          type="submit"
          className="primary"
          disabled={problem !== undefined || isTaken}
          title={problem}
        >
          Save
        </button>
        {before.name !== "" && (
          <button
            type="button"
            onClick={async () => {
              if (await keepConnection(before.name)) onDone();
            }}
          >
            Remove
          </button>
        )}
        <button type="button" onClick={onDone}>
          Back
        </button>
      </div>
    </form>
  );
}

interface InputProps {
  readonly field: ConnectionField;
  readonly value: string;
  readonly onValue: (value: string) => void;
}

function ConnectionInput({ field, value, onValue }: InputProps) {
  const { label, type, hint = "" } = field;
  if (type === "switch") {
    return (
      <label className="switch">
        <input
          type="checkbox"
          checked={value === "true"}
          onChange={() => onValue(value === "true" ? "" : "true")}
        />
        {label}
      </label>
    );
  }
  return (
    <ValidatedInput
      label={label}
      placeholder={hint}
      value={value}
      error={fieldProblem(field, value)}
      onValue={onValue}
    />
  );
}

interface TestProps {
  readonly connection: Connection;
  readonly isDisabled: boolean;
}

/** Tests the connection as it is typed, before it is saved. */
function ConnectionTest({ connection, isDisabled }: TestProps) {
  const [address, setAddress] = useState("");
  const [outcome, setOutcome] = useState<TestOutcome | "running">();
  const { kind } = connection;
  const needsAddress = kind !== "cluster";
  return (
    <fieldset>
      <legend>Test</legend>
      {needsAddress && (
        <ValidatedInput
          label="A file there"
          placeholder={kind === "https" ? "https://host/days.csv" : `${kind}://bucket/days.csv`}
          value={address}
          error={undefined}
          onValue={setAddress}
        />
      )}
      <button
        type="button"
        disabled={isDisabled || outcome === "running" || (needsAddress && address === "")}
        onClick={async () => {
          setOutcome("running");
          setOutcome(await testConnection(connection, address.trim()));
        }}
      >
        {needsAddress ? "Read its beginning" : "Run a small flow there"}
      </button>
      <p
        role="status"
        className={typeof outcome === "object" && !outcome.isGood ? "wrong-text" : "quiet"}
      >
        {outcome === "running" ? "Trying…" : outcome?.text}
      </p>
    </fieldset>
  );
}
