// Package yamltree parses YAML and JSON into a tree of values with positions, and shows
// problems with file, line, column and the line with a caret below.
//
// It parses rules and configuration. Both are written by hand, so a message must show the
// position, and no input may crash the process.
//
//   - Everything is bounded: the depth of a document, the number of its values, the part
//     of a line that is shown.
//   - YAML is parsed as JSON in another layout. Anything else is rejected: anchors and
//     aliases, tags, directives, duplicate keys, numbers such as 0755, 0x10 or 1_000, and
//     unquoted strings that have several lines or a tab or end in a colon.
//   - Lines that may have a secret are not shown. They are identified by the names of
//     fields, and by a function of the caller.
package yamltree
