import { Page } from "../ui/Page";

export function Audit() {
  return <Page title="Audit">Not there yet.</Page>;
}
