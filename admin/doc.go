// Package admin is what operators do: edit rules with their history, ask why a
// request is decided as it is, look at buckets and reset them.
//
// An [Operator] is all of it. [Direct] works straight on a rule source and an
// engine; [Client] does the same over the admin API of a server, where roles
// and an audit stand between. Who writes a tool for operators writes it once,
// for both.
//
// The types of this package are the JSON of the admin API. Its description is
// docs/admin-api.md, and every server has it as /openapi.json.
package admin
