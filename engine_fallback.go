package fluxgate

import "github.com/fluxgate/fluxgate/store/failover"

// FallbackStats counts the tokens of the fallback since the engine was created.
type FallbackStats = failover.Stats

// FallbackStats returns the token counts of the fallback.
func (e *Engine) FallbackStats() (stats FallbackStats) {
	if e.failover != nil {
		stats = e.failover.Stats()
	}
	if s, ok := e.store.(interface{ Unsent() (waiting, lost int64) }); ok { // what it gives back by itself
		waiting, lost := s.Unsent()
		stats.PendingSettlements, stats.LostSettlements = stats.PendingSettlements+waiting, stats.LostSettlements+lost
	}
	return stats
}
