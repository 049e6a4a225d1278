import { Page } from "../ui/Page";

export function Fleet() {
  return <Page title="Fleet">Not there yet.</Page>;
}
