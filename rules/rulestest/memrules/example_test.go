package memrules_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// A program creates rules, two people change them at once, and one revision is
// restored.
func ExampleNew() {
	ctx := context.Background()
	source := memrules.New(memrules.Config{})
	perMinute := func(n int64) *rules.Set {
		set, err := rules.NewSet("api", rules.Rule{ID: "everyone", Bands: []rules.Band{rules.PerMinute(n)}})
		if err != nil {
			log.Fatal(err)
		}
		return set
	}

	first, err := source.Put(ctx, perMinute(100), rules.Change{Author: "ada"})
	if err != nil {
		log.Fatal(err)
	}
	second, err := source.Put(ctx, perMinute(200), rules.Change{Base: first, Author: "ada", Comment: "twice as much"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = source.Put(ctx, perMinute(50), rules.Change{Base: first, Author: "bob"})
	var conflict *rules.ConflictError
	fmt.Println(errors.As(err, &conflict), err)
	if _, err := admin.NewDirect(source, nil, "").Restore(ctx, "api", first, rules.Change{Base: second, Author: "bob"}); err != nil {
		log.Fatal(err)
	}

	history, err := source.History(ctx, "api", 0, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range history {
		fmt.Println(e.Revision, e.Author, e.Comment)
	}
	// Output:
	// true rule set "api" is at revision 2, not at 1: another operator changed it
	// 3 bob restore revision 1
	// 2 ada twice as much
	// 1 ada
}
