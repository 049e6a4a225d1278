import type { ComponentType } from "react";
import { Callers } from "./Callers";
import { Explain } from "./Explain";
import { Fleet } from "./Fleet";
import { Overrides } from "./Overrides";
import { Overview } from "./Overview";
import { Rules } from "./Rules";
import { Warnings } from "./Warnings";

export interface Screen {
  path: string;
  title: string;
  Component: ComponentType;
}

// screens are in the order of the navigation. A screen reads the rest of its address
// with useRoute: #/rules/api-limits is the screen /rules.
export const screens: Screen[] = [
  { path: "/", title: "Overview", Component: Overview },
  { path: "/rules", title: "Rules", Component: Rules },
  { path: "/explain", title: "Explain", Component: Explain },
  { path: "/callers", title: "Callers", Component: Callers },
  { path: "/overrides", title: "Overrides", Component: Overrides },
  { path: "/warnings", title: "Warnings", Component: Warnings },
  { path: "/fleet", title: "Fleet", Component: Fleet },
];

export function screenOf(path: string): Screen {
  return screens.find((s) => s.path !== "/" && (path === s.path || path.startsWith(s.path + "/"))) ?? screens[0]!;
}
