// Package yamltree parses YAML and JSON into a tree of values with positions, and shows
// problems with file, line and column.
//
// It parses rules and configuration. Both are written by hand, so a message must show the
// position, and no input may crash the process.
//
//   - Everything is bounded: the depth of a document, the number of its values.
//   - YAML is parsed as JSON in another layout. Anything else is rejected: anchors and
//     aliases, tags, directives, duplicate keys, numbers such as 0755, 0x10 or 1_000, and
//     unquoted strings that have several lines or a tab or end in a colon.
//   - No line of a file is shown: it may have a secret.
package yamltree
