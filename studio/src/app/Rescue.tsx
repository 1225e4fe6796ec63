// If the page fails, the flow must not be lost with it: it can be saved, and left.

import { Component, type ReactNode } from "react";
import { newFlow } from "../document/flow";
import { actionOf } from "./actions";
import { beginUnnamed } from "./files";

interface Props {
  readonly children: ReactNode;
}

interface State {
  readonly failure: string | undefined;
}

export class Rescue extends Component<Props, State> {
  override state: State = { failure: undefined };

  static getDerivedStateFromError(error: unknown): State {
    return { failure: error instanceof Error ? error.message : String(error) };
  }

  override render(): ReactNode {
    const { failure } = this.state;
    if (failure === undefined) return this.props.children;
    const leave = () => {
      // The file, and what is kept beside it, stay as they are.
      beginUnnamed(newFlow());
      this.setState({ failure: undefined });
    };
    return (
      <div className="rescue" role="alert">
        <h1>The page has failed; the flow is still there.</h1>
        <p>{failure}</p>
        <div className="row">
          <button type="button" onClick={actionOf("save").run}>
            Save the flow
          </button>
          <button type="button" onClick={() => this.setState({ failure: undefined })}>
            Try again
          </button>
          <button type="button" onClick={leave}>
            Begin with an empty flow
          </button>
        </div>
      </div>
    );
  }
}
