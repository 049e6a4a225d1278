package insight

// LiveQuery is the query of GET /v1/live. Its zero value is the last two minutes of the fleet. A
// rule, and the last hour of a rule set, are known of a server only.
type LiveQuery struct {
	RuleSet string `query:"ruleSet" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"Only this rule set."`
	Rule    string `query:"rule" pattern:"^([A-Za-z0-9._-]{1,64}|\\(request\\))$" doc:"Only this rule; needs ruleSet."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most entries to return."`
	Scope   string `query:"scope" enum:"fleet,server" doc:"All servers (default), or this one, as for rules and hours of rule sets."`
	Range   string `query:"range" enum:"2m,1h" default:"2m" doc:"The last two minutes, or the last hour of the servers that run now."`
}

// CallersQuery is the query of GET /v1/callers. Its zero value selects those limited most.
type CallersQuery struct {
	RuleSet string `query:"ruleSet" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"Only this rule set."`
	Rule    string `query:"rule" pattern:"^([A-Za-z0-9._-]{1,64}|\\(request\\))$" doc:"Only this rule; needs ruleSet."`
	Outcome string `query:"outcome" enum:"limited,allowed" default:"limited" doc:"Which requests to count. limited includes shadow rules."`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"The most callers to return."`
}
