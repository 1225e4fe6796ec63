// Saves the project's connections.

import {
  CONNECTIONS_PATH,
  type Connection,
  writeConnections,
} from "../../document/forms/connections";
import { useConnections } from "../state/connectionStore";
import { userRequest } from "../state/serverStore";

/** Adds a connection, or replaces the one of a name; without `now`, removes it. */
export function keepConnection(name: string | undefined, now?: Connection): Promise<boolean> {
  return userRequest(async (backend) => {
    const { connections, version } = useConnections.getState();
    const rest = connections.filter((one) => one.name !== name && one.name !== now?.name);
    const changed = (now === undefined ? rest : [...rest, now]).toSorted((a, b) =>
      a.name.localeCompare(b.name),
    );
    const saved = await backend.save(CONNECTIONS_PATH, writeConnections(changed), version);
    useConnections.setState({ connections: changed, version: saved });
  });
}
