import { Page } from "../ui/Page";

export function Rules() {
  return <Page title="Rules">Not there yet.</Page>;
}
