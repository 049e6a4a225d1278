import { amountOf } from "../../ui/amount";
import { curveOf } from "./refill";
import { leftOf, refillOf, time, type Band } from "./words";

const [width, height] = [300, 90];

// RefillPlot draws how a band is filled again if no request comes. The same is beside
// it as text.
export function RefillPlot({ band }: { band: Band }) {
  const curve = curveOf(band);
  if (!curve) return null;
  const last = curve.points[curve.points.length - 1]!.ms;
  const low = Math.min(0, ...curve.points.map((p) => p.tokens));
  const x = (ms: number) => (ms / last) * width;
  const y = (tokens: number) => height - ((tokens - low) / (band.limit - low || 1)) * (height - 8) - 2;
  const line = curve.points.map((p) => `${x(p.ms).toFixed(1)},${y(p.tokens).toFixed(1)}`).join(" ");
  const fits = band.waitMs ?? 0;
  return (
    <figure className="refill">
      <div className="plot">
        <div className="scale" aria-hidden>
          <span>{amountOf(band.limit, band.measure)}</span>
          <span>{amountOf(low, band.measure)}</span>
        </div>
        <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={`Tokens over time: ${leftOf(band)}. ${refillOf(band)}`}>
          <polygon className="area" points={`0,${y(low)} ${line} ${width},${y(low)}`} />
          {low < 0 && <line className="zero" x1={0} x2={width} y1={y(0)} y2={y(0)} />}
          <polyline className={curve.exact ? "curve" : "curve guess"} points={line} />
          {fits > 0 && fits < last && <line className="fits" x1={x(fits)} x2={x(fits)} y1={0} y2={height} />}
        </svg>
        <div className="times" aria-hidden>
          <span>now</span>
          <span>in {time(last)}</span>
        </div>
      </div>
      {!curve.exact && <figcaption>Known are the start and the end. In between it comes back as it was taken.</figcaption>}
    </figure>
  );
}
