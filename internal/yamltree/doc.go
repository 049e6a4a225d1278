// Package yamltree reads YAML and JSON into a tree of values with their
// positions, and shows problems with file, line, column and the line itself with
// a caret below.
//
// Rules and configuration are read with it. Both are written by hand, so a
// message must lead to the place, and neither may end the process that reads
// it.
//
//   - Everything is bounded: the depth of a document, the number of its values,
//     the part of a line that is shown.
//   - YAML is read as JSON in another layout. What JSON does not have is refused:
//     anchors and aliases, tags, directives, duplicate keys, numbers such as
//     0755, 0x10 or 1_000, and strings without quotes that have several lines or
//     a tab or end in a colon.
//   - Lines that may hold a secret are not shown. They are known by the names of
//     fields, and by a function of the caller.
package yamltree
