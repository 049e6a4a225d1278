package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// table is a table with a header. Without rows it writes nothing.
type table struct {
	columns []string
	rows    [][]string
	// optional has columns that are left out if all their cells have this text.
	optional map[string]string
}

// add adds a row. An empty cell shows as [none], and text written by others
// cannot leave its cell.
func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if row[i] = printable.Line(fmt.Sprint(cell), maxCell); row[i] == "" {
			row[i] = none
		}
	}
	t.rows = append(t.rows, row)
}

func (t *table) write(out io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	hidden := func(i int) bool {
		text, optional := t.optional[t.columns[i]]
		return optional && !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != text })
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range slices.Concat([][]string{t.columns}, t.rows) {
		var shown []string
		for i := range row {
			if !hidden(i) {
				shown = append(shown, row[i])
			}
		}
		printf(w, "%s\n", strings.Join(shown, "\t"))
	}
	_ = w.Flush() // out keeps its error
}

// writeBelow writes the table below an empty line.
func (t *table) writeBelow(out io.Writer) {
	if len(t.rows) > 0 {
		printf(out, "\n")
		t.write(out)
	}
}

// maxCell is how many characters of a text a table shows.
const maxCell = 72

// none is the cell of a value that does not exist.
const none = "-"

// moment is a time as tables show it.
func moment(at *time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
