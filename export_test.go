package fluxgate

// WaitWarnings returns when the store has the warnings that were reported before.
func (e *Engine) WaitWarnings() { e.warnings.Wait() }
