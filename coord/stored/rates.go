package stored

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/storage"
)

// chunk is how much of a rate is written as used up before it is used.
const chunk = 200 * time.Millisecond

// rateParts is over how many settings the rates of a store are spread.
const rateParts = 64

// Rates keeps the used tokens of rates in a store, so that they stay used when the process restarts or
// crashes. It is for the only process that uses the store, and safe for concurrent use.
//
// Tokens are written as used before they are granted, together with the tokens of the next 200 ms. So a rate
// writes at most five times a second, and a restart loses the tokens of at most 200 ms. Times are by the wall clock of the
// machine at the making of the Rates, and from then on by its monotonic clock. If the wall clock is set forward before a
// restart, the rate may have a whole burst after it; if it is set back, at most a burst is missing.
type Rates struct {
	store storage.Settings
	start time.Time

	mu    sync.Mutex
	parts [rateParts]map[string]*bucket // guarded by mu, by the name of the rate; nil: not read yet
}

var _ coord.Rates = (*Rates)(nil)

// bucket has the used tokens of a rate. Times are nanoseconds since 1970.
type bucket struct {
	due     int64 // when the bucket is full again
	written int64 // the due time in the store: not earlier
}

// NewRates returns rates that keep their use in a store. The caller closes the store, after the last call has
// returned.
func NewRates(store storage.Settings) *Rates { return &Rates{store: store, start: time.Now()} }

// Draw implements [coord.Rates].
func (r *Rates) Draw(ctx context.Context, draws ...coord.Draw) ([]coord.Drawn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	latest := make(map[string]coord.Draw, len(draws))
	for _, d := range draws {
		latest[d.Name] = d
		if err := r.read(ctx, partOf(d.Name)); err != nil {
			return nil, err
		}
	}
	now := r.start.UnixNano() + int64(time.Since(r.start))
	drawn, overdrawn := make([]coord.Drawn, len(draws)), make(map[int]bool)
	for i, d := range draws {
		switch {
		case d.Tokens <= 0:
			continue
		case !limits.IsName(d.Name):
			drawn[i].Next = limits.Never
			continue
		}
		part := partOf(d.Name)
		b := r.parts[part][d.Name]
		if b == nil {
			b = &bucket{}
			r.parts[part][d.Name] = b
		}
		step, slack := limits.Bucket(latest[d.Name].Interval, latest[d.Name].Burst)
		granted, due, next := limits.Draw(now, b.due, step, slack, 0, int64(d.Tokens))
		if granted == int64(d.Tokens) {
			next = 0
		}
		drawn[i] = coord.Drawn{Tokens: int(granted), Next: time.Duration(next)}
		if b.due = due; granted > 0 && due > b.written {
			b.written = due + int64(chunk)/step*step
			overdrawn[part] = true
		}
	}
	for part := range overdrawn {
		if err := r.write(ctx, part, now); err != nil {
			return nil, err
		}
	}
	return drawn, nil
}

// partOf returns the number of the setting that keeps a rate.
func partOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // it never fails
	return int(h.Sum32() % rateParts)
}

func settingOf(part int) string { return fmt.Sprintf("%s%02d", storage.RatesSettings, part) }

// read reads a part, once. It is called with mu held.
func (r *Rates) read(ctx context.Context, part int) error {
	if r.parts[part] != nil {
		return nil
	}
	value, err := r.store.Setting(ctx, settingOf(part))
	if err != nil {
		return fmt.Errorf("stored: read the use of rates: %w", err)
	}
	var due map[string]int64
	if value != nil {
		if err := json.Unmarshal(value, &due); err != nil {
			return fmt.Errorf("stored: the use of rates is damaged; the setting is %q: %w", settingOf(part), err)
		}
	}
	r.parts[part] = make(map[string]*bucket, len(due))
	for name, at := range due {
		r.parts[part][name] = &bucket{due: at, written: at}
	}
	return nil
}

// write writes a part without the rates that are full. If that fails, the content of the store is not
// known, and the part is written again before more is granted. It is called with mu held.
func (r *Rates) write(ctx context.Context, part int, now int64) error {
	all := r.parts[part]
	due := make(map[string]int64, len(all))
	maps.DeleteFunc(all, func(name string, b *bucket) bool {
		b.written = max(b.written, b.due)
		due[name] = b.written
		return b.written <= now
	})
	maps.DeleteFunc(due, func(_ string, at int64) bool { return at <= now })
	value, err := json.Marshal(due)
	if err == nil {
		err = r.store.SetSetting(ctx, settingOf(part), value)
	}
	if err == nil {
		return nil
	}
	for _, b := range all {
		b.written = 0
	}
	return fmt.Errorf("stored: write the use of rates: %w", err)
}
