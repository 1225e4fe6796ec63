// Named connections of a project: object stores, with the storage options of their paths, and
// clusters. Secrets are names of environment variables, never values; flows get the same names.

import { isList, isObject, type Json, type JsonObject, printJson, readJson } from "../json";

/** The file of a project's connections, beneath its folder. */
export const CONNECTIONS_PATH = "connections.json";

/** What a connection leads to. */
export type ConnectionKind = "s3" | "gs" | "az" | "https" | "cluster";

export interface Connection {
  readonly name: string;
  readonly kind: ConnectionKind;
  /** Values of the kind's fields; a secret's is the name of its variable. */
  readonly values: ReadonlyMap<string, string>;
}

/** A field of a connection's form. */
export interface ConnectionField {
  readonly name: string;
  readonly label: string;
  readonly type: "text" | "switch" | "variable";
  readonly hint?: string;
}

const text = (name: string, label: string, hint = ""): ConnectionField => {
  return { name, label, type: "text", hint };
};
const variable = (name: string, label: string, hint: string): ConnectionField => {
  return { name, label, type: "variable", hint };
};
const flag = (name: string, label: string): ConnectionField => ({ name, label, type: "switch" });

const ANONYMOUS = flag("anonymous", "Public data: send no key");
const HTTP = flag("allow_http", "Allow plain HTTP, which others can read");

/** The title and the fields of each kind, named as storage options are. */
export const CONNECTION_KINDS: Readonly<
  Record<ConnectionKind, { readonly title: string; readonly fields: readonly ConnectionField[] }>
> = {
  s3: {
    title: "S3, and stores that speak its protocol",
    fields: [
      text("endpoint", "Endpoint", "https://minio.example.org; empty for Amazon"),
      text("region", "Region", "eu-west-1"),
      text("profile", "Profile of ~/.aws", "instead of variables"),
      variable("access_key_id", "Variable with the key's id", "AWS_ACCESS_KEY_ID"),
      variable("secret_access_key", "Variable with the secret key", "AWS_SECRET_ACCESS_KEY"),
      variable("session_token", "Variable with the session token", "none"),
      ANONYMOUS,
      HTTP,
    ],
  },
  gs: {
    title: "Google Cloud Storage",
    fields: [text("service_account", "File of the service account"), ANONYMOUS],
  },
  az: {
    title: "Azure Blob Storage",
    fields: [
      text("account_name", "Account"),
      variable("account_key", "Variable with the key", "AZURE_STORAGE_ACCOUNT_KEY"),
      variable("sas_key", "Variable with the shared access signature", "none"),
      text("endpoint", "Endpoint", "empty for Azure's own"),
      ANONYMOUS,
      HTTP,
    ],
  },
  https: {
    title: "A web server",
    fields: [variable("bearer_token", "Variable with the token", "none")],
  },
  cluster: {
    title: "A cluster",
    fields: [text("where", "Where", "processes:8, or at:HOST:PORT")],
  },
};

export const KIND_NAMES = Object.keys(CONNECTION_KINDS) as readonly ConnectionKind[];

/** Why the value of a field is not taken; undefined if it is. */
export function fieldProblem(field: ConnectionField, value: string): string | undefined {
  if (field.type !== "variable" || value === "") return undefined;
  const isKey = /^A[KS]IA[A-Z0-9]{12,}$/.test(value) || /[^A-Za-z0-9_]/.test(value);
  if (isKey) return "This looks like a key. Give the name of the variable that holds it.";
  const isName = /^[A-Za-z_][A-Za-z0-9_]*$/.test(value) && value.length < 40;
  return isName ? undefined : "A variable's name has letters, digits and _, like LAKE_KEY.";
}

/** Why a connection cannot be kept; undefined if it can. */
export function connectionProblem({ name, kind, values }: Connection): string | undefined {
  if (name.trim() === "") return "A connection needs a name.";
  const { fields } = CONNECTION_KINDS[kind];
  const wrong = fields.find((field) => fieldProblem(field, values.get(field.name) ?? ""));
  if (wrong !== undefined) return fieldProblem(wrong, values.get(wrong.name) ?? "");
  if (kind === "cluster" && (values.get("where") ?? "") === "") return "Where is the cluster?";
  return undefined;
}

/** The storage options of a path: secrets as references to variables. */
export function storageOptions({ kind, values }: Connection): JsonObject {
  const options = new Map<string, Json>();
  for (const { name, type } of CONNECTION_KINDS[kind].fields) {
    const value = values.get(name) ?? "";
    if (kind === "cluster" || value === "") continue;
    options.set(name, type === "variable" ? `env:${value}` : value);
  }
  return options;
}

/** The connections of a file. Entries of another form, and what may be a secret, are left out. */
export function readConnections(file: string): readonly Connection[] {
  const { value } = readJson(file);
  const entries = isObject(value) ? value.get("connections") : undefined;
  if (!isList(entries)) return [];
  return entries.flatMap((entry) => {
    if (!isObject(entry)) return [];
    const [name, kind] = [entry.get("name"), KIND_NAMES.find((one) => one === entry.get("kind"))];
    if (typeof name !== "string" || kind === undefined) return [];
    const values = new Map<string, string>();
    for (const field of CONNECTION_KINDS[kind].fields) {
      const given = entry.get(field.name);
      if (typeof given !== "string" || given === "") continue;
      const isReference = field.type !== "variable" || given.startsWith("env:");
      if (isReference) values.set(field.name, given.replace(/^env:/, ""));
    }
    const connection = { name, kind, values };
    return connectionProblem(connection) === undefined ? [connection] : [];
  });
}

/** The file of connections. */
export function writeConnections(connections: readonly Connection[]): string {
  const entries = connections.map((one): Json => {
    const where = one.kind === "cluster" ? [...one.values] : [...storageOptions(one)];
    return new Map<string, Json>([["name", one.name], ["kind", one.kind], ...where]);
  });
  // The server lists documents that name their program.
  return printJson(
    new Map<string, Json>([
      ["for", "euphrates"],
      ["connections", entries],
    ]),
  );
}
