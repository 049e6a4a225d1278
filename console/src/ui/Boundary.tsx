import { Component, type ReactNode } from "react";
import { Failure } from "./states";

// Boundary shows an error of the parts in it instead of an empty page.
export class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return <Failure error={this.state.error} retry={() => window.location.reload()} />;
  }
}
