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

// Unpause lets tasks of a type be started again.
func (e *Engine) Unpause(ctx context.Context, typ string) error { return e.setPaused(ctx, typ, false) }

func (e *Engine) setPaused(ctx context.Context, typ string, paused bool) error {
	if typ == "" || len(typ) > MaxType || !printable(typ) {
		return fmt.Errorf("%w: %.40q is not a type", ErrInvalid, typ)
	}
	e.pausing.Lock()
	defer e.pausing.Unlock()
	if settings, ok := e.store.(storage.Settings); ok {
		pauses, err := readPauses(ctx, settings)
		if err != nil {
			return err
		}
		pauses[typ] = paused
		value, err := json.Marshal(pauses)
		if err != nil {
			return fmt.Errorf("engine: pause %s: %w", typ, err)
		}
		if err := settings.SetSetting(ctx, pausesSetting, value); err != nil {
			return fmt.Errorf("engine: pause %s: %w", typ, err)
		}
	}
	e.decide(func(c *core.Core, now time.Time) {
		c.Pause(now, typ, paused)
		e.hint([]task.Hint{coord.Changed()})
	})
	return nil
}

func readPauses(ctx context.Context, s storage.Settings) (map[string]bool, error) {
	pauses := make(map[string]bool)
	value, err := s.Setting(ctx, pausesSetting)
	if err == nil && value != nil {
		err = json.Unmarshal(value, &pauses)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: read which types are paused: %w", err)
	}
	return pauses, nil
}

// loadPauses pauses what is paused by the store.
func (e *Engine) loadPauses(ctx context.Context) error {
	settings, ok := e.store.(storage.Settings)
	if !ok {
		return nil
	}
	e.pausing.Lock()
	defer e.pausing.Unlock()
	pauses, err := readPauses(ctx, settings)
	if err != nil {
		return err
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
