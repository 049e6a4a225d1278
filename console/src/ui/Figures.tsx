// Figures are some numbers with their names, in a row.
export function Figures({ title, figures }: { title: string; figures: [string, string][] }) {
  return (
    <section aria-label={title}>
      <h2 className="card-title">{title}</h2>
      <dl className="totals">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
