package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// pausesSetting is where the store keeps which types people have paused or resumed.
const pausesSetting = "paused-types"

// Pause stops tasks of a type from being started, here and after a restart, until they
// are resumed; on other nodes of a cluster, too, as soon as they hear of it, and within
// half a minute. What runs goes on, and tasks are accepted.
func (e *Engine) Pause(ctx context.Context, typ string) error { return e.setPaused(ctx, typ, true) }

// maxUnknownPauses is how many types that are not configured may be paused, or have been
// resumed, by hand: memory and the store keep each of them.
const maxUnknownPauses = 1000

// Unpause lets tasks of a type be started again.
func (e *Engine) Unpause(ctx context.Context, typ string) error { return e.setPaused(ctx, typ, false) }

func (e *Engine) setPaused(ctx context.Context, typ string, paused bool) error {
	if typ == "" || len(typ) > MaxType || !printable(typ) {
		return fmt.Errorf("%w: %.40q is not a type", ErrInvalid, typ)
	}
	e.pausing.Lock()
	defer e.pausing.Unlock()
	if settings, ok := e.store.(storage.Settings); ok {
		if err := e.savePause(ctx, settings, typ, paused); err != nil {
			return fmt.Errorf("engine: pause %s: %w", typ, err)
		}
	}
	e.decide(func(c *core.Core, now time.Time) {
		c.Pause(now, typ, paused)
		e.hint([]task.Hint{coord.Changed()})
	})
	return nil
}

// savePause writes that a type is paused, or not. What other nodes write at the same time is
// kept.
func (e *Engine) savePause(ctx context.Context, settings storage.Settings, typ string, paused bool) error {
	for {
		pauses, old, err := readPauses(ctx, settings)
		if err != nil {
			return err
		}
		if err := e.checkPause(pauses, typ); err != nil {
			return err
		}
		pauses[typ] = paused
		value, err := json.Marshal(pauses)
		if err != nil {
			return err
		}
		shared, ok := settings.(storage.Shared)
		if !ok {
			return settings.SetSetting(ctx, pausesSetting, value)
		}
		if swapped, err := shared.SwapSetting(ctx, pausesSetting, old, value); swapped || err != nil {
			return err
		}
	}
}

// checkPause refuses one more type that is not configured if there are too many.
func (e *Engine) checkPause(pauses map[string]bool, typ string) error {
	if _, ok := pauses[typ]; ok || e.types[typ] != nil {
		return nil
	}
	unknown := 0
	for name := range pauses {
		if e.types[name] == nil {
			unknown++
		}
	}
	if unknown >= maxUnknownPauses {
		return fmt.Errorf("%w: type %.40q is not configured, and %d others that are not were paused or resumed already: configure the types that are to be paused", ErrInvalid, typ, unknown)
	}
	return nil
}

// readPauses returns which types are paused or not, and as what that is stored.
func readPauses(ctx context.Context, s storage.Settings) (pauses map[string]bool, stored []byte, err error) {
	pauses = make(map[string]bool)
	stored, err = s.Setting(ctx, pausesSetting)
	if err == nil && stored != nil {
		err = json.Unmarshal(stored, &pauses)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read which types are paused: %w", err)
	}
	return pauses, stored, nil
}

// loadPauses pauses what is paused by the store.
func (e *Engine) loadPauses(ctx context.Context) error {
	settings, ok := e.store.(storage.Settings)
	if !ok {
		return nil
	}
	e.pausing.Lock()
	defer e.pausing.Unlock()
	pauses, _, err := readPauses(ctx, settings)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	e.decide(func(c *core.Core, now time.Time) {
		for typ, paused := range pauses {
			c.Pause(now, typ, paused)
		}
	})
	return nil
}

// pausesEvery is how often a node looks which types others have paused, if nobody tells it.
const pausesEvery = 30 * time.Second

// pausesLoop pauses and resumes what others do.
func (e *Engine) pausesLoop(ctx context.Context) {
	timer := time.NewTimer(pausesEvery)
	defer timer.Stop()
	for {
		select {
		case <-e.changed:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if err := e.loadPauses(ctx); err != nil && ctx.Err() == nil {
			e.log.Debug("cannot look which types are paused; it is tried again", "error", err)
		}
		timer.Reset(pausesEvery)
	}
}
