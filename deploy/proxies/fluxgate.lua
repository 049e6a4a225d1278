-- Asks fluxgate about a request, for HAProxy 2.5 and later. Nothing but HAProxy's
-- own Lua is needed. See haproxy.cfg beside this file.
--
--   http-request lua.fluxgate PATH FAILURE HEADERS
--
-- PATH is what to ask, such as /v1/forward-auth?ruleSet=api-limits. FAILURE is
-- what happens to a request while there is no decision: closed (503) or open.
-- HEADERS are the request headers that fluxgate gets, separated by commas. Deny
-- requests with more than 64 header lines first: HAProxy 2.6 crashes when its
-- Lua sends about 100.

-- Where the section "listen fluxgate" of haproxy.cfg listens. That section, not
-- this file, has the servers, the timeouts and the connections.
local ask = "127.0.0.1:8079"

-- Only to end a question that even that section has not ended.
local patience = 60 * 1000

-- What clients are told about their limits when they pass.
local about_limits = {
	"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
	"ratelimit-policy", "ratelimit",
}

-- What a rejection is made of. The rest of fluxgate's answer is for us.
local about_rejection = {
	"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
	"ratelimit-policy", "ratelimit",
	"retry-after", "content-type", "cache-control", "x-content-type-options",
}

local function question(txn, names)
	local headers, received = {}, txn.http:req_get_headers()
	for name in names:lower():gmatch("[^,]+") do
		local list, values = {}, received[name] or {}
		for i = 0, #values do
			list[i + 1] = values[i]
		end
		headers[name] = list
	end
	headers["x-forwarded-method"] = { txn.f:method() }
	headers["x-forwarded-uri"] = { txn.f:pathq() }
	headers["x-forwarded-for"] = { txn.f:src() }
	headers["x-forwarded-host"] = { txn.f:req_fhdr("host") }
	return headers
end

local function only(names, said)
	local kept = {}
	for _, name in ipairs(names) do
		if said[name] then
			kept[name] = { said[name][0] }
		end
	end
	return kept
end

-- Requests pass only where this says so: haproxy.cfg refuses the others, those
-- included that an error in here has left undecided.
local function pass(txn)
	txn:set_var("txn.fluxgate", "pass")
end

core.register_action("fluxgate", { "http-req" }, function(txn, path, failure, names)
	local asked, answer = pcall(function()
		return core.httpclient():get({
			url = "http://" .. ask .. path, headers = question(txn, names), timeout = patience,
		})
	end)
	local status = asked and answer and answer.status or 0
	local said = status > 0 and answer.headers or {}

	if status >= 200 and status < 300 then
		txn:set_priv(only(about_limits, said))
		pass(txn)
	elseif said["x-fluxgate-status"] or (status >= 400 and status < 500) then
		-- A decision has a mark. Other 4xx say that the question is wrong,
		-- which is no reason to let it pass.
		txn:done(txn:reply({ status = status, headers = only(about_rejection, said), body = answer.body }))
	elseif failure == "open" then
		pass(txn)
	end
end, 3)

core.register_action("fluxgate-headers", { "http-res" }, function(txn)
	for name, values in pairs(txn:get_priv() or {}) do
		txn.http:res_set_header(name, values[1])
	end
end, 0)
