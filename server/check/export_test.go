package check

// CompatibleRequest is the request of existing clients.
type CompatibleRequest = compatibleRequest
