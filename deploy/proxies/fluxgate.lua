-- Asks fluxgate about a request, for HAProxy 2.5 and later. It needs only
-- HAProxy's own Lua. See haproxy.cfg in this folder.
--
--   http-request lua.fluxgate PATH FAILURE HEADERS
--
-- PATH is the endpoint, such as /v1/forward-auth?ruleSet=api-limits. FAILURE is
-- what happens to a request without a decision: closed (503) or open.
-- HEADERS are the request headers that fluxgate gets, separated by commas. Deny
-- requests with more than 64 header lines first: HAProxy 2.6 crashes when its
-- Lua sends about 100.

-- The address of the section "listen fluxgate" in haproxy.cfg. That section
-- has the servers, the timeouts and the connections.
local address = "127.0.0.1:8079"

-- Ends a request that even that section has not ended.
local timeout = 60 * 1000

-- Headers of an allowed response.
local limit_headers = {
	"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
	"ratelimit-policy", "ratelimit",
}

-- Headers of a rejection. The client gets no others of fluxgate's response.
local rejection_headers = {
	"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
	"ratelimit-policy", "ratelimit",
	"retry-after", "content-type", "cache-control", "x-content-type-options",
}

local function request_headers(txn, names)
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

local function copy_headers(names, headers)
	local kept = {}
	for _, name in ipairs(names) do
		if headers[name] then
			kept[name] = { headers[name][0] }
		end
	end
	return kept
end

-- Only a request for which this is called passes: haproxy.cfg refuses all others,
-- also after an error in this script.
local function pass(txn)
	txn:set_var("txn.fluxgate", "pass")
end

core.register_action("fluxgate", { "http-req" }, function(txn, path, failure, names)
	local ok, response = pcall(function()
		return core.httpclient():get({
			url = "http://" .. address .. path, headers = request_headers(txn, names), timeout = timeout,
		})
	end)
	local status = ok and response and response.status or 0
	local headers = status > 0 and response.headers or {}

	if status >= 200 and status < 300 then
		txn:set_priv(copy_headers(limit_headers, headers))
		pass(txn)
	elseif headers["x-fluxgate-status"] or (status >= 400 and status < 500) then
		-- A decision has this header. Any other 4xx means that the request to
		-- fluxgate is wrong, which is not a reason to let it pass.
		txn:done(txn:reply({ status = status, headers = copy_headers(rejection_headers, headers), body = response.body }))
	elseif failure == "open" then
		pass(txn)
	end
end, 3)

core.register_action("fluxgate-headers", { "http-res" }, function(txn)
	for name, values in pairs(txn:get_priv() or {}) do
		txn.http:res_set_header(name, values[1])
	end
end, 0)
