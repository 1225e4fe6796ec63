// Named connections: their file, their storage options, and that no secret gets into either.

import { expect, test } from "vitest";
import {
  type Connection,
  connectionProblem,
  fieldProblem,
  readConnections,
  storageOptions,
  writeConnections,
} from "../src/document/forms/connections";

const lake: Connection = {
  name: "lake",
  kind: "s3",
  values: new Map([
    ["endpoint", "http://minio.lan:9000"],
    ["allow_http", "true"],
    ["access_key_id", "LAKE_ID"],
    ["secret_access_key", "LAKE_KEY"],
  ]),
};
const rack: Connection = {
  name: "rack",
  kind: "cluster",
  values: new Map([["where", "processes:8"]]),
};

test("connections are read as they were written", () => {
  const read = readConnections(writeConnections([lake, rack]));
  expect(read.map(({ name, kind }) => [name, kind])).toEqual([
    ["lake", "s3"],
    ["rack", "cluster"],
  ]);
  expect(new Map([...(read[0]?.values ?? [])].sort())).toEqual(new Map([...lake.values].sort()));
  expect(read[1]).toEqual(rack);
});

test("a flow gets references to variables", () => {
  expect(Object.fromEntries(storageOptions(lake))).toEqual({
    endpoint: "http://minio.lan:9000",
    allow_http: "true",
    access_key_id: "env:LAKE_ID",
    secret_access_key: "env:LAKE_KEY",
  });
  expect(storageOptions(rack).size).toBe(0);
});

const SECRETS = [
  "AKIAIOSFODNN7EXAMPLE",
  "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY00",
  "sv=2024&sig=abc",
];

test.each(SECRETS)("what looks like the secret %s is refused as the name of a variable", (key) => {
  const field = { name: "secret_access_key", label: "", type: "variable" } as const;
  expect(fieldProblem(field, key)).toBeDefined();
  const wrong = { ...lake, values: new Map([["secret_access_key", key]]) };
  expect(connectionProblem(wrong)).toBeDefined();
});

test("a secret in a file that was edited by hand is left out", () => {
  const [found] = readConnections(
    `{"connections": [7, {"name": "x"}, {"name": "lake", "kind": "s3", "region": "eu-west-1",
      "secret_access_key": "wJalrXUtnFEMI"}]}`,
  );
  expect(found?.values).toEqual(new Map([["region", "eu-west-1"]]));
});
