import { Page } from "../ui/Page";

export function Explain() {
  return <Page title="Explain">Not there yet.</Page>;
}
