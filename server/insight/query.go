package insight

// LiveQuery is the query of GET /v1/live.
type LiveQuery struct {
	RuleSet string `query:"ruleSet" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"Only this rule set."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most rules to return."`
}

// CallersQuery is the query of GET /v1/callers. Its zero value selects those limited most.
type CallersQuery struct {
	RuleSet string `query:"ruleSet" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"Only this rule set."`
	Rule    string `query:"rule" pattern:"^([A-Za-z0-9._-]{1,64}|\\(request\\))$" doc:"Only this rule; needs ruleSet."`
	Outcome string `query:"outcome" enum:"limited,allowed" default:"limited" doc:"Which requests to count. limited includes shadow rules."`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"The most callers to return."`
}
