import { Table } from "@mantine/core";
import type { ReactNode } from "react";

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ReactNode;
  // Numbers are aligned to the right.
  number?: boolean;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
}

// DataTable is a table that scrolls sideways where it does not fit, also by keyboard. On
// a narrow screen each row is a list of its cells with their titles; the roles keep it a
// table for screen readers there.
export function DataTable<Row>({ label, columns, rows, keyOf }: Props<Row>) {
  return (
    <div className="scroll" role="region" aria-label={label} tabIndex={0}>
      <Table verticalSpacing={6} horizontalSpacing="sm" aria-label={label} role="table" className="data">
        <Table.Thead role="rowgroup">
          <Table.Tr role="row">
            {columns.map((c) => (
              <Table.Th key={c.title} className={c.number ? "number" : undefined} scope="col" role="columnheader">
                {c.title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody role="rowgroup">
          {rows.map((row) => (
            <Table.Tr key={keyOf(row)} role="row">
              {columns.map((c) => (
                <Table.Td key={c.title} className={c.number ? "number" : undefined} data-title={c.title} role="cell">
                  <div>{c.cell(row)}</div>
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}
