package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// pausesSetting is the name of the setting in the store with the types that were paused or resumed by
	// hand.
	pausesSetting = "paused-types"

	// maxUnknownPauses is how many types that are not configured may have been paused or resumed by
	// hand: memory and the store keep each of them.
	maxUnknownPauses = 1000

	// pausesEvery is how often a node reads which types are paused. A hint has it do so at once, but may be lost.
	pausesEvery = time.Second
)

// ErrTooManyPauses is wrapped by the error of [Cluster.Pause] for one type too many that is not
// configured.
var ErrTooManyPauses = errors.New("configure the types before you pause them")

// pauses has the types that were paused or resumed by hand, as this node knows them.
type pauses struct {
	isRead bool   // the core has stored
	stored []byte // the setting as it was last read
}

// Pause is whether a type is paused by hand, and who decided that.
type Pause struct {
	Paused bool      `json:"paused,omitempty"`
	By     string    `json:"by,omitempty"` // the author; "" if it is not known
	At     time.Time `json:"at,omitzero"`
}

// Pause pauses or resumes the start of tasks of a type, on all nodes. A store that is a
// [storage.Settings] keeps that. When Pause returns, this node does so; the others do so as soon as a
// hint reaches them, and within pausesEvery at the latest.
func (k *Cluster) Pause(ctx context.Context, typ string, to Pause) error {
	k.pausing.Lock()
	defer k.pausing.Unlock()
	k.pauses.isRead = false
	all := make(map[string]Pause)
	if before := k.byHand.Load(); before != nil {
		maps.Copy(all, *before)
	}
	all[typ] = to
	k.byHand.Store(&all)
	if settings, ok := k.store.(storage.Settings); ok {
		if err := k.savePause(ctx, settings, typ, to); err != nil {
			return err
		}
	}
	k.engine.Decide(func(c *core.Core, now time.Time) { c.Pause(now, typ, to.Paused) })
	k.Hint([]task.Hint{coord.Changed()})
	return nil
}

// savePause writes to the store whether a type is paused, and keeps concurrent changes of other nodes.
func (k *Cluster) savePause(ctx context.Context, settings storage.Settings, typ string, to Pause) error {
	for {
		all, old, err := readPauses(ctx, settings)
		if err != nil {
			return err
		}
		if err := k.checkPause(all, typ); err != nil {
			return err
		}
		all[typ] = to
		value, err := json.Marshal(all)
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

// checkPause returns an error if a type is not configured, and there are too many such types.
func (k *Cluster) checkPause(all map[string]Pause, typ string) error {
	if _, ok := all[typ]; ok || k.engine.IsConfigured(typ) {
		return nil
	}
	unknown := 0
	for name := range all {
		if !k.engine.IsConfigured(name) {
			unknown++
		}
	}
	if unknown >= maxUnknownPauses {
		return fmt.Errorf("type %.40q is not configured, and %d others that are not were paused or resumed already: %w", typ, unknown, ErrTooManyPauses)
	}
	return nil
}

// PauseOf returns whether a type is paused by hand, as far as this node knows.
func (k *Cluster) PauseOf(typ string) Pause {
	if all := k.byHand.Load(); all != nil {
		return (*all)[typ]
	}
	return Pause{}
}

// readPauses returns the types that were paused or resumed by hand, and the setting as it is stored.
func readPauses(ctx context.Context, s storage.Settings) (all map[string]Pause, stored []byte, err error) {
	all = make(map[string]Pause)
	stored, err = s.Setting(ctx, pausesSetting)
	if err == nil && stored != nil {
		err = json.Unmarshal(stored, &all)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read which types are paused: %w", err)
	}
	return all, stored, nil
}

// LoadPauses passes the paused types in the store to the core. A type that the store does not name any more, because it
// was restored from a backup, is paused or not as it is configured.
func (k *Cluster) LoadPauses(ctx context.Context) error {
	settings, ok := k.store.(storage.Settings)
	if !ok {
		return nil
	}
	k.pausing.Lock()
	defer k.pausing.Unlock()
	all, stored, err := readPauses(ctx, settings)
	if err != nil || k.pauses.isRead && bytes.Equal(stored, k.pauses.stored) {
		return err
	}
	before := k.byHand.Swap(&all)
	k.pauses = pauses{isRead: true, stored: stored}
	k.engine.Decide(func(c *core.Core, now time.Time) {
		for typ, of := range all {
			c.Pause(now, typ, of.Paused)
		}
		if before == nil {
			return
		}
		for typ := range *before {
			if _, ok := all[typ]; !ok {
				c.Pause(now, typ, c.Policy(typ).Paused)
			}
		}
	})
	return nil
}

// pausesLoop pauses and resumes types after other nodes have done so.
func (k *Cluster) pausesLoop(ctx context.Context) {
	timer := time.NewTimer(pausesEvery)
	defer timer.Stop()
	for {
		select {
		case <-k.repause.C():
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if err := k.LoadPauses(ctx); err != nil && ctx.Err() == nil {
			k.log.Debug("cannot read which types are paused; it is tried again", "error", err)
		}
		timer.Reset(pausesEvery)
	}
}
