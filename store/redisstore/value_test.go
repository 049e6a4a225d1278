package redisstore

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// docs/redis.md has the fields of recordFields in their order and size.
func TestValue_Documented(t *testing.T) {
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| bytes | field | content |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var got []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); !strings.HasPrefix(line, "| |") {
			got = append(got, strings.TrimSpace(cells[1])+" "+strings.TrimSpace(cells[2]))
		}
	}
	want := []string{"1 version", "7 at", "3 id", "1 kind"}
	for kind := range bucket.Concurrency {
		for _, field := range recordFields[kind] {
			row := "7 " + field
			if field == "counts" {
				row = fmt.Sprintf("%d × 7 counts", len(bucket.Steps{}.Counts))
			}
			if !slices.Contains(want, row) {
				want = append(want, row)
			}
		}
	}
	if want = append(want, "7 since", "4 ", "7 hold"); !slices.Equal(got, want) {
		t.Errorf("docs/redis.md has\n%q, want\n%q", got, want)
	}
}

// Go and Lua find the same number in every field, and write the same bytes.
func TestValue_Fields(t *testing.T) {
	client := newScriptClient(t, testenv.SharedStandalone(t))
	for kind := range bucket.Concurrency {
		for _, since := range []int64{0, 99} {
			slot := bucket.Slot{ID: 0xabcdef, Kind: kind, Since: since}
			if kind != bucket.TokenBucket {
				slot.Steps = new(bucket.Steps)
			}
			var want []int64
			for i, field := range fieldsOf(&slot, nil) {
				*field = int64(1_000 + i)
				want = append(want, *field)
			}
			state := bucket.State{At: takenAt, Hold: 77, Slots: []bucket.Slot{slot}}
			value := string(encodeValue(&state))
			var read bucket.State
			if !decode(&read, value) || !reflect.DeepEqual(read, state) {
				t.Errorf("kind %d: Go reads %+v", kind, read)
			}
			var fields []string
			for _, name := range recordFields[kind] {
				switch name {
				case "used":
					fields = append(fields, "r[2]")
				case "limit":
					fields = append(fields, "r[3]")
				case "counts":
					for i := range (bucket.Steps{}).Counts {
						fields = append(fields, fmt.Sprintf("r[COUNTS + %d]", i))
					}
				default:
					fields = append(fields, "r["+strings.ToUpper(name)+"]")
				}
			}
			script := fmt.Sprintf("local shared = { now = %d, hold = {}, regained = function() return 0 end }\n", takenAt) +
				modules("constants", "kinds/shared", "kinds/records") +
				"local state = kinds.read(1, ARGV[1])\nlocal r = state.records[1]\nstate.raw = nil\n" +
				"return { shared.hold[1], r.since or 0, kinds.pack(1, state), " + strings.Join(fields, ", ") + " }"
			got, err := client.Eval(t.Context(), script, nil, value).Slice()
			if err != nil {
				t.Fatal(err)
			}
			all := []any{int64(77), since, value}
			for _, n := range want {
				all = append(all, n)
			}
			if !slices.Equal(got, all) {
				t.Errorf("kind %d: Lua reads\n%v, want\n%v", kind, got, all)
			}
		}
	}
}
