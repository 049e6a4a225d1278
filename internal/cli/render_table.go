package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// table has columns that stand below each other. Its header appears with its
// first row.
type table struct {
	columns []string
	writer  *tabwriter.Writer
	rows    int
}

func newTable(out io.Writer, columns ...string) *table {
	return &table{columns: columns, writer: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

// row adds a row. A cell is never empty, or the columns would not stand below
// each other; and a text that others have written cannot leave its cell.
func (t *table) row(cells ...any) {
	if t.rows == 0 {
		_, _ = fmt.Fprintln(t.writer, strings.Join(t.columns, "\t")) // flush has the error
	}
	t.rows++
	texts := make([]string, len(cells))
	for i, cell := range cells {
		if texts[i] = printable.Line(fmt.Sprint(cell), maxCell); texts[i] == "" {
			texts[i] = none
		}
	}
	_, _ = fmt.Fprintln(t.writer, strings.Join(texts, "\t"))
}

func (t *table) flush() error { return t.writer.Flush() }

// maxCell is how many characters of a text a table shows.
const maxCell = 72

// moment is a time as tables show it.
func moment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// none stands where nothing is known.
const none = "-"

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ceilMilli rounds up a time that is often shorter than a second.
func ceilMilli(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// ceilSecond rounds up: who comes again after so long must fit.
func ceilSecond(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
