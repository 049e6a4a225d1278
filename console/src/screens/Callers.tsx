import { Page } from "../ui/Page";

export function Callers() {
  return <Page title="Callers">Not there yet.</Page>;
}
