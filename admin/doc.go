// Package admin is for operators: it edits rules and their history, explains
// decisions, and shows and resets buckets.
//
// An [Operator] has all of these operations. [Direct] works on a rule source and an
// engine; [Client] uses the admin API of a server, with roles and an audit. Code
// written for an Operator works with both.
//
// The types of this package are the JSON of the admin API. It is described in
// docs/admin-api.md, and by every server at /openapi.json.
package admin
