package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/internal/feed"
	"github.com/taskengine/taskengine/storage"
)

// A store that is restored goes back in time, and readers of events have cursors that are later. So the store has a time that no cursor is after, the
// horizon. It is written ahead of the cursors, while somebody reads. A cursor after it shows that the store is from before that cursor. A store
// that was restored to a time shortly before a cursor may have a later horizon: the catch-up of every gap begins before that, see changedOverlap.
const (
	horizonSetting = "events-horizon"
	horizonAhead   = time.Minute     // how far ahead it is written, and how far a cursor may be from it
	horizonTimeout = 5 * time.Second // of a read or a write
)

// horizon is the horizon of the events of a store.
type horizon struct {
	mu sync.Mutex
	at time.Time // guarded by mu: as this node has written it last; zero: not yet
}

// readHorizon returns the horizon that the store has; zero if it has none.
func readHorizon(ctx context.Context, s storage.Settings) (time.Time, error) {
	value, err := s.Setting(ctx, horizonSetting)
	if err != nil || value == nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, string(value))
	if err != nil {
		return time.Time{}, fmt.Errorf("the setting %s: %w", horizonSetting, err)
	}
	return at, nil
}

// extendHorizon has the horizon of the store be after the cursors of the next time. It returns a gap if the store has gone back since this node wrote it
// last. A store that does not answer costs no event: a cursor may look later than the horizon then, and its reader reads the store.
func (e *Engine) extendHorizon(ctx context.Context, now time.Time) *feed.Gap {
	s, ok := e.store.(storage.Settings)
	h := &e.horizon
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ok || h.at.Sub(now) > horizonAhead/2 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, horizonTimeout)
	defer cancel()
	stored, err := readHorizon(ctx, s)
	if err != nil {
		return nil
	}
	var gap *feed.Gap
	if !h.at.IsZero() && stored.Before(h.at) {
		gap = restoredGap(stored, now)
	}
	to := now.Add(horizonAhead).UTC()
	if stored.After(to) { // by another node
		to = stored
	}
	if s.SetSetting(ctx, horizonSetting, []byte(to.Format(time.RFC3339Nano))) == nil {
		h.at = to
	}
	return gap
}

// restoredBefore returns a gap if the store was restored to a time before a cursor of another node, or of this one before a restart.
func (e *Engine) restoredBefore(ctx context.Context, c EventCursor, now time.Time) *feed.Gap {
	s, ok := e.store.(storage.Settings)
	if !ok || c.Feed.IsZero() || c.Feed == e.feedID {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, horizonTimeout)
	defer cancel()
	stored, err := readHorizon(ctx, s)
	if err != nil || !c.At.After(stored) {
		return nil
	}
	return restoredGap(stored, now)
}

// restoredGap returns the gap of a store that was restored and has a horizon.
func restoredGap(stored, now time.Time) *feed.Gap {
	from := time.UnixMicro(0).UTC()
	if !stored.IsZero() {
		from = stored.Add(-horizonAhead)
	}
	return &feed.Gap{From: from, Until: now, Text: "the store was restored to a time before the cursor: changes that the reader has seen since the beginning of the gap may be undone"}
}
