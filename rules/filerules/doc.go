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
// A file holds one rule set as above, or several in a list under ruleSets, or
// several YAML documents. In a folder all files count whose name ends in
// .yaml, .yml or .json; hidden ones and folders inside do not. Links are
// followed, so that a mounted Kubernetes ConfigMap works.
//
// # What is promised
//
//   - All or nothing. As long as anything is wrong with any file, no new content
//     is returned: [Source.Load] and [Source.Revisions] are errors, and the
//     rules in effect stay. The [*Error] has every problem of every file, with
//     its line and a caret.
//   - No half-written file. New content is used when it has stayed the same for
//     [Config.Settle]. Writing to another name and renaming is still better: a
//     writer that stops half-way for longer than that leaves a shorter YAML
//     file, which looks like an edit.
//   - An accident is not a deletion. A rule set is deleted when the files can be
//     read and it is in none of them. A path that is missing, a folder without
//     any of its files and an empty file are errors.
//   - The revision is a hash of the content: all servers with the same rules
//     have the same one, and comments and layout do not matter.
//   - API keys are not shown. Error messages quote no line that may have one.
//   - Everything is bounded: the size and number of files, how deep a document
//     may be, and what an error lists.
//
// YAML is read as JSON in another layout. What JSON does not have is refused:
// anchors and aliases, tags, duplicate keys, numbers such as 0755, 0x10 or
// 1_000, and unquoted strings that have several lines or a colon and a space.
package filerules
