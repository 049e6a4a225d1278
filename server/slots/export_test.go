package slots

// Callers is how many callers a pool remembers.
func Callers(p *Pool) int { return len(p.callers) }
