// The first rules of deploy/compose.yaml. MongoDB runs this if its volume is
// empty, and fluxgate imports the rules as revision 1. Edit them with mongosh:
// docs/admin.md.
db.getSiblingDB("fluxgate").rate_limit_rules.insertMany([
  {
    _id: "per-user", ruleSetId: "api-limits", path: "/api/**", limitScope: "USER_ID",
    bands: [{ label: "minute", capacity: 100, refillTokens: 100, refillSeconds: 60 }],
    priority: 0, enabled: true, onLimitExceed: "REJECT",
  },
  {
    _id: "everyone", ruleSetId: "api-limits", limitScope: "IP",
    bands: [{ label: "second", capacity: 50, refillTokens: 50, refillSeconds: 1 }],
    priority: 0, enabled: true, onLimitExceed: "REJECT",
  },
]);
