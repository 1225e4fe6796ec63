// Error boundary: when rendering fails, the flow can still be saved or replaced.

import { Component, type ReactNode } from "react";
import { newFlow } from "../../document/flow";
import { loadUnsavedFlow } from "../files/openFile";
import { actionOf } from "./actions";

interface Props {
  readonly children: ReactNode;
}

interface State {
  readonly failure: string | undefined;
}

export class ErrorBoundary extends Component<Props, State> {
  override state: State = { failure: undefined };

  static getDerivedStateFromError(error: unknown): State {
    return { failure: error instanceof Error ? error.message : String(error) };
  }

  override render(): ReactNode {
    const { failure } = this.state;
    if (failure === undefined) return this.props.children;
    const startEmpty = () => {
      // Leaves the file and its draft as they are.
      loadUnsavedFlow(newFlow());
      this.setState({ failure: undefined });
    };
    return (
      <div className="rescue" role="alert">
        <h1>The page has failed; the flow is kept.</h1>
        <p>{failure}</p>
        <div className="row">
          <button type="button" onClick={actionOf("save").run}>
            Save the flow
          </button>
          <button type="button" onClick={() => this.setState({ failure: undefined })}>
            Try again
          </button>
          <button type="button" onClick={startEmpty}>
            Begin with an empty flow
          </button>
        </div>
      </div>
    );
  }
}
