// Package rules defines rules, rule sets, and the sources that store and change them.
//
// A [Rule] matches requests and limits them by its limits, the [Band] values. A [Set] is
// an id and its rules. [NewSet] builds and [Parse] reads a set. Both check it as a whole
// and report every [Problem] at once.
//
// [Set.Warnings] reads the rules of a valid set as a whole, and names those that cannot work as
// they are written.
//
// A [Source] returns the revisions of rule sets, which is cheap, and their content.
// Sources are files, MongoDB and Redis (filerules, mongorules, redisrules). Package
// reload keeps their rule sets for the engine. A source of your own has two methods.
// Test it with rulestest.
//
// An [Editor] is a source that can also be written. Every change is a whole rule
// set under a new revision, with author, time and comment. It takes effect only
// if the revision it was based on is still the current one, so two editors
// cannot overwrite each other. Former revisions are kept and can be restored.
//
// [Diff] compares two rule sets field by field, and [WriteDiff] prints the result.
// [Stamp] maintains the times of rules.
package rules
