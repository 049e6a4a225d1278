package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

var (
	// luaToken is a comment or a string, which stay as they are, or something to change.
	// An operator has spaces around it; a minus without them is a sign.
	luaToken = regexp.MustCompile(`--[^\n]*|'[^'\n]*'|[A-Za-z_][\w.]*|\d+(?:\.\d+)?| (?:[<>]=?|[=~]=|[-+*/%]) `)
	// luaCondition is the condition of an if that begins and ends in its line.
	luaCondition = regexp.MustCompile(`(?m)\b(?:if|elseif) (.*?) then\b`)
	// luaReturn is what a line returns.
	luaReturn = regexp.MustCompile(`(?m)\breturn ([^\n]*?)(?: end)? *$`)
	// luaStatement is a line that is a statement on its own: an assignment to what exists, a
	// call, or an if.
	luaStatement = regexp.MustCompile(`(?m)^[ \t]*((?:[\w.\[\]+*, ]+ = |call\(|write\(|[\w.]+\(|if .* then .* end)[^\n]*)$`)
	luaOpener    = regexp.MustCompile(`^(?:local|function|for|while|return|else|elseif)\b|\bfunction\b|(?:then|do|[({,])$`)
)

// luaMutants finds the changes of a Lua file, by its words and lines. What they make is Lua
// again, so that a test that fails has noticed the change.
func luaMutants(file string, source []byte) []mutant {
	l := &list{file: file, source: source}
	code := bytes.Clone(source) // without comments
	for _, at := range luaToken.FindAllIndex(source, -1) {
		text := string(source[at[0]:at[1]])
		start := at[0] + len(text) - len(strings.TrimLeft(text, " "))
		word := strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(text, "--"):
			copy(code[at[0]:], strings.Repeat(" ", len(text)))
		case text[0] == '\'':
		case word == "==":
			l.replace(start, start+2, "~=")
		case word == "math.min" || word == "math.max":
			l.replace(start, at[1], "math."+operators[word[5:]])
		case operators[word] != "" && word != "min" && word != "max": // those are variables
			l.replace(start, start+len(word), operators[word])
		case text[0] >= '0' && text[0] <= '9':
			if value, err := strconv.ParseInt(text, 10, 64); err == nil {
				l.replace(at[0], at[1], strconv.FormatInt(value+1, 10))
			}
		}
	}
	for _, at := range luaCondition.FindAllSubmatchIndex(code, -1) {
		condition := string(code[at[2]:at[3]])
		l.add(at[2], at[3], "not ("+condition+")", "condition negated: "+condition)
	}
	for _, at := range luaReturn.FindAllSubmatchIndex(code, -1) {
		if text := string(code[at[2]:at[3]]); text != "0" && !strings.HasSuffix(text, "{") {
			l.add(at[2], at[3], "0", "zero returned")
		}
	}
	for _, at := range luaStatement.FindAllSubmatchIndex(code, -1) {
		if text := strings.TrimSpace(string(code[at[2]:at[3]])); !luaOpener.MatchString(text) {
			l.add(at[2], at[3], "", "left out: "+text)
		}
	}
	return l.mutants
}
