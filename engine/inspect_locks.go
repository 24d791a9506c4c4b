package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
)

// shortLock is how long transactions of others may keep locks before they are reported.
const shortLock = 2 * time.Second

// Blockers returns the sessions of the store's databases that have been in a transaction for two seconds or more in which
// they have locked rows or tables of tasks: what needs these waits. The oldest is the first. The error wraps
// [ErrUnsupported] if transactions of the store do not wait for others.
func (e *Engine) Blockers(ctx context.Context) ([]storage.Blocker, error) {
	in, ok := e.store.(storage.Locker)
	if !ok {
		return nil, fmt.Errorf("engine: sessions that hold locks: %w", ErrUnsupported)
	}
	all, err := in.Blockers(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	now := e.Now()
	return slices.DeleteFunc(all, func(b storage.Blocker) bool { return !b.Since.IsZero() && now.Sub(b.Since) < shortLock }), nil
}
