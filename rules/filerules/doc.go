// Package filerules keeps rule sets in files: one file, or a folder of them,
// as YAML or JSON.
//
//	id: api-limits
//	rules:
//	  - id: per-caller
//	    path: /api/**
//	    limitScope: IP
//	    bands:
//	      - {label: per-second, capacity: 100, refill: 1s}
//
// A file has one rule set as above, or several in a list under ruleSets, or
// several YAML documents. In a folder all files ending in .yaml, .yml or .json
// are read, but not hidden files and subfolders. Links are followed, so that a
// mounted Kubernetes ConfigMap works.
//
// # Guarantees
//
//   - All or nothing. While any file has a problem, no new content is returned:
//     [Source.Load] and [Source.Revisions] return an error, and the rules in
//     effect stay. The [*Error] has every problem of every file, with line and
//     column.
//   - No half-written file. New content is used when it has not changed for
//     [Config.Settle]. Writing to another name and renaming is safer: a writer
//     that pauses for longer leaves a shorter YAML file, which may be valid.
//   - A lost file is not a deletion. A rule set is deleted when the files can be
//     read and it is in none of them. A missing path, a folder without rule files
//     and an empty file are errors.
//   - The revision is a hash of the content: all servers with the same rules have
//     the same one, and comments and layout do not matter.
//   - Errors show no API keys: they quote no line.
//   - Everything is bounded: size and number of files, depth of documents, and
//     length of errors.
//
// YAML is read as JSON in another layout. Anything else is rejected: anchors and
// aliases, tags, duplicate keys, numbers such as 0755, 0x10 or 1_000, and unquoted
// strings with several lines or with a colon and a space.
package filerules
