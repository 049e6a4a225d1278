// Package rules says what a rule is, where rule sets are stored and how they change.
//
// A [Rule] matches requests and limits them by its [Band] values. A [Set] is an id and
// its rules. It is made by [NewSet] or read by [Parse], which check it as a whole and
// report every [Problem] at once.
//
// A [Source] returns the revision of a rule set, cheaply and often, and its
// content when it has changed. Sources are files, MongoDB and Redis (filerules,
// mongorules, redisrules) and the memory of a program (memrules); package reload
// keeps their rule sets for the engine. A source of your own has two methods;
// test it with rulestest.
//
// An [Editor] is a source that can also be written. Every change is a whole rule
// set under a new revision, with author, time and comment. It takes effect only
// if the revision it was based on is still the current one, so two editors
// cannot overwrite each other. Former revisions are kept and can be restored.
//
// [Diff] compares two rule sets field by field, and [WriteDiff] prints the result.
// [Stamp] maintains the times of rules.
package rules
