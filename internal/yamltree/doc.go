// Package yamltree reads YAML and JSON into a tree whose values know where they
// stand, and shows what is wrong with them: file, line, column and the line
// itself with a caret below.
//
// Rules and configuration are read by it. Both are written by hand, so that a
// message must lead to the place, and neither may end the process that reads
// it.
//
//   - Everything is bounded: how deep a document may be, how many values it may
//     have, how much of a line is shown.
//   - YAML is read as if it were JSON in another layout. What JSON does not have
//     is refused instead of guessed at: anchors and aliases, tags, keys that
//     stand twice, numbers such as 0755, 0x10 or 1_000, and texts without quotes
//     that have several lines or a colon and a space in them.
//   - Lines that may have a secret are not shown. Which these are is told by the
//     names of fields, and by whoever reads the file.
package yamltree
