package model

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// String is the history in lines that a person can read.
func (h *History) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "seed %d, begins %v after midnight (%v)\n", h.Seed, h.Begins, begins.Add(h.Begins).Format("2 January 15:04:05"))
	for i, g := range h.Gateways {
		fmt.Fprintf(&s, "gateway %d: latency %v", i, g.Latency)
		say := func(is bool, format string, args ...any) {
			if is {
				fmt.Fprintf(&s, ", "+format, args...)
			}
		}
		say(g.Leases, "leases")
		say(g.MaxWait > 0, "holds requests up to %v", g.MaxWait)
		say(g.SeesResets > 0, "sees resets after %v", g.SeesResets)
		say(g.SeesRules > 0, "sees rules after %v", g.SeesRules)
		say(g.SeesFleet > 0, "sees the fleet after %v", g.SeesFleet)
		say(g.Waits, "starts later")
		say(g.Ahead != 0, "its clock is ahead by %v", g.Ahead)
		s.WriteString("\n")
	}
	if r := h.Redis; r.Nodes > 0 {
		fmt.Fprintf(&s, "Redis: %d nodes, cluster %t, %d shards, timeout %v\n", r.Nodes, r.Cluster, r.Shards, r.Timeout)
	}
	for i, rules := range h.Versions {
		for _, r := range rules {
			fmt.Fprintf(&s, "version %d: %s\n", i, ruleText(&r))
		}
		for _, o := range h.overridesOf(i) {
			fmt.Fprintf(&s, "version %d: %v\n", i, o)
		}
	}
	for i := range h.Ops {
		fmt.Fprintf(&s, "%v\n", &h.Ops[i])
	}
	fmt.Fprintf(&s, "%v the end\n", h.Ends)
	return s.String()
}

func ruleText(r *rules.Rule) string {
	words := []string{"rule", r.ID, string(r.Scope)}
	for _, w := range []string{r.Cost, string(r.Mode), string(r.OnFailure), string(r.Consistency), string(r.OnLimitExceed)} {
		if w != "" {
			words = append(words, w)
		}
	}
	words = append(words, r.Paths...)
	if r.Action != "" {
		words = append(words, string(r.Action))
	}
	if r.Priority != 0 {
		words = append(words, fmt.Sprintf("priority %d", r.Priority))
	}
	if r.Group != "" {
		words = append(words, "group "+r.Group)
	}
	if r.Overdraft {
		words = append(words, "overdraft")
	}
	if r.CountRefused {
		words = append(words, "counts-refused")
	}
	if end, ends := endOf(r); ends {
		words = append(words, "until "+end.String())
	}
	for _, b := range r.Bands {
		label, warns := "", ""
		if b.WarnAt != (rules.Percents{}) {
			warns = ", warn at " + b.WarnAt.String()
		}
		if b.Label != "" {
			label = b.Label + ": "
		}
		switch b.Kind {
		case rules.Concurrency:
			words = append(words, fmt.Sprintf("[%s%d at once, hold %v]", label, b.Capacity, b.Hold))
		case rules.Quota:
			words = append(words, fmt.Sprintf("[%s%d each %s%s]", label, b.Capacity, strings.TrimSpace(string(b.Period)+" "+b.Timezone), warns))
		case rules.SlidingWindow:
			words = append(words, fmt.Sprintf("[%s%d in any %v%s]", label, b.Capacity, b.Refill, warns))
		default:
			words = append(words, fmt.Sprintf("[%s%d, %d every %v]", label, b.Capacity, b.Tokens(), b.Refill))
		}
	}
	return strings.Join(words, " ")
}

// String is the operation as a person would say it.
func (op *Op) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v ", op.At)
	if op.Gateway == All {
		s.WriteString("all gateways: ")
	} else {
		fmt.Fprintf(&s, "gateway %d: ", op.Gateway)
	}
	switch op.Kind {
	case OpCheck:
		s.WriteString(op.checks())
	case OpPeek:
		fmt.Fprintf(&s, "caller %s peeks", op.Caller)
	case OpReset:
		fmt.Fprintf(&s, "reset of caller %q rule %q", op.Caller, op.Rule)
	case OpRules:
		fmt.Fprintf(&s, "rules change to version %d", op.Version)
	case OpFault:
		fmt.Fprintf(&s, "fault %s %s for %v", op.Fault, op.Rule, op.Span)
	case OpRestart:
		s.WriteString("the store restarts empty")
	case OpStep:
		fmt.Fprintf(&s, "the store's clock steps by %v", op.Step)
	case OpStall:
		fmt.Fprintf(&s, "stalls for %v", op.Span)
	case OpMove:
		fmt.Fprintf(&s, "the slot of shard %d moves within %v", op.N, op.Span)
	default:
		s.WriteString(string(op.Kind))
	}
	return s.String()
}

func (op *Op) checks() string {
	var s strings.Builder
	fmt.Fprintf(&s, "caller %s checks", op.Caller)
	if op.N > 1 {
		fmt.Fprintf(&s, " %d times in %v", op.N, op.Span)
	}
	if op.Path != "" {
		s.WriteString(" " + op.Path)
	}
	fmt.Fprintf(&s, ", cost %d", op.Cost)
	if op.Tokens > 0 {
		fmt.Fprintf(&s, " (%d tokens)", op.Tokens)
	}
	if op.With > 0 {
		fmt.Fprintf(&s, ", together with %d others", op.With)
	}
	if op.Denied {
		s.WriteString(", together with one that is denied")
	}
	if op.Lasts > 0 {
		fmt.Fprintf(&s, ", lasts %v", op.Lasts)
	}
	if op.Renew {
		s.WriteString(", renewed")
	}
	switch {
	case op.Leaves == Gone:
		s.WriteString(", has gone before")
	case op.Leaves > 0:
		fmt.Fprintf(&s, ", leaves after %v", op.Leaves)
	}
	if op.Actual == Never {
		return s.String() + ", not settled"
	}
	fmt.Fprintf(&s, ", settled at %d (%d tokens)", op.Actual, op.ActualTokens)
	if op.Again {
		s.WriteString(" twice")
	}
	if op.SettleAt != All {
		fmt.Fprintf(&s, " by gateway %d", op.SettleAt)
	}
	if op.Gone {
		s.WriteString(" when its caller has gone")
	}
	return s.String()
}

// Literal is the history in Go, to be kept as a test.
func (h *History) Literal() string {
	var s strings.Builder
	literal(&s, reflect.ValueOf(*h), "\t")
	return s.String()
}

func literal(s *strings.Builder, v reflect.Value, indent string) {
	if d, ok := v.Interface().(time.Duration); ok {
		unit, name := time.Nanosecond, "time.Nanosecond"
		if d%time.Millisecond == 0 {
			unit, name = time.Millisecond, "time.Millisecond"
		}
		fmt.Fprintf(s, "%d * %s", d/unit, name)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		s.WriteString(typeName(v) + "{")
		first := true
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() || v.Field(i).IsZero() {
				continue
			}
			if !first {
				s.WriteString(", ")
			}
			first = false
			s.WriteString(v.Type().Field(i).Name + ": ")
			literal(s, v.Field(i), indent)
		}
		s.WriteString("}")
	case reflect.Slice:
		s.WriteString(typeName(v) + "{\n")
		for i := range v.Len() {
			s.WriteString(indent + "\t")
			literal(s, v.Index(i), indent+"\t")
			s.WriteString(",\n")
		}
		s.WriteString(indent + "}")
	case reflect.Array:
		fmt.Fprintf(s, "%s{", typeName(v))
		for i := range v.Len() {
			literal(s, v.Index(i), indent)
			s.WriteString(", ")
		}
		s.WriteString("}")
	case reflect.String:
		fmt.Fprintf(s, "%q", v.String())
	case reflect.Int, reflect.Int64: // also of types that have a text
		fmt.Fprint(s, v.Int())
	default:
		fmt.Fprint(s, v.Interface())
	}
}

// typeName is the name of a type in this package.
func typeName(v reflect.Value) string { return strings.ReplaceAll(v.Type().String(), "model.", "") }
