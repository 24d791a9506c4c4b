package engine

import "context"

// FromContext returns the engine that runs a handler, if ctx is the context of one or derived from it.
func FromContext(ctx context.Context) (*Engine, bool) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, false
	}
	return a.engine, true
}
