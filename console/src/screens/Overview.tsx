import { Page } from "../ui/Page";

export function Overview() {
  return <Page title="Overview">Not there yet.</Page>;
}
