import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";

export interface Line {
  name: string;
  color: string; // the name of a CSS variable
  values: (number | null)[];
  dash?: number[]; // colours alone do not tell lines apart
}

interface Props {
  title: string;
  lines: Line[];
  // end is the time of the last value in seconds, step the time between two.
  end: number;
  step: number;
  format: (value: number | null | undefined) => string;
  unit?: string;
}

const height = 160;
const tick = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

// Chart draws lines over time. The values under the pointer, or the last ones, are
// beside it as text.
export function Chart({ title, lines, end, step, format, unit = "" }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const [pointed, setPointed] = useState<number | null>(null);
  const scheme = useComputedColorScheme("light");
  const names = lines.map((l) => l.name).join();

  useEffect(() => {
    const element = host.current!;
    const made = new uPlot(options(element, lines, setPointed, step, unit), data(lines, end, step), element);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
    };
    // The data is set below: a new plot is for other lines or other colours.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [names, scheme, step, unit]);

  useEffect(() => plot.current?.setData(data(lines, end, step)), [lines, end, step]);

  const latest = lines.map((l) => `${l.name} ${format(last(l.values))}`).join(", ");
  return (
    <figure className="chart">
      <div ref={host} role="img" aria-label={`${title} over time. Latest: ${latest}`} />
      <figcaption>
        <dl className="figures" aria-label={title + (pointed === null ? ", latest" : ", at the pointer")}>
          {lines.map((l) => (
            <div key={l.name}>
              <dt style={{ "--swatch": `var(${l.color})` } as React.CSSProperties}>{l.name}</dt>
              <dd>{format(pointed === null ? last(l.values) : l.values[pointed])}</dd>
            </div>
          ))}
        </dl>
      </figcaption>
    </figure>
  );
}

function last(values: (number | null)[]): number | null {
  return values.findLast((v) => v !== null) ?? null;
}

function data(lines: Line[], end: number, step: number): uPlot.AlignedData {
  const length = Math.max(0, ...lines.map((l) => l.values.length));
  const times = Array.from({ length }, (_, i) => end - (length - 1 - i) * step);
  return [times, ...lines.map((l) => l.values)];
}

function clock(seconds: number, step: number): string {
  const options = { hour: "2-digit", minute: "2-digit", hour12: false } as const;
  return new Date(seconds * 1000).toLocaleTimeString("en", step < 10 ? { ...options, second: "2-digit" } : options);
}

// lone returns the values without a neighbour, which no line shows.
function lone(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const known = (i: number) => values[i] !== null && values[i] !== undefined;
  return [...values.keys()].filter((i) => known(i) && !known(i - 1) && !known(i + 1));
}

function options(element: HTMLElement, lines: Line[], point: (index: number | null) => void, step: number, unit: string): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: color("--chart-text"),
    grid: { stroke: color("--chart-grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  return {
    width: element.clientWidth,
    height,
    padding: [8, 28, 0, 0], // half of the last time label
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, space: 80, size: 28, values: (_, splits) => splits.map((v) => clock(v, step)) },
      { ...axis, size: 52, space: 32, values: (_, splits) => splits.map((v) => (unit ? plain : tick).format(v) + unit) },
    ],
    series: [{}, ...lines.map((l) => ({ label: l.name, stroke: color(l.color), width: 1.5, dash: l.dash, points: { show: true, size: 4, fill: color(l.color), filter: lone } }))],
    hooks: { setCursor: [(u: uPlot) => point(u.cursor.idx ?? null)] },
  };
}
