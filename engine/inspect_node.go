package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/storage"
)

// BusStatus returns the state of the connection of this node to its bus. It reports false if the node has no bus
// that can fail, see [coord.Reporter].
func (e *Engine) BusStatus() (coord.BusStatus, bool) { return e.cluster.BusStatus() }

// withBus adds to the reasons of a task that another node is to start, or runs, that hints do not reach it.
func (e *Engine) withBus(rs []Reason) []Reason {
	status, ok := e.BusStatus()
	if !ok || status.Down == nil {
		return rs
	}
	for _, r := range rs {
		if r.Code == CodeElsewhere {
			return append(rs, Reason{Code: CodeBus, Text: fmt.Sprintf("hints do not reach that node, so it finds the task in the store, within about a second: %v", status.Down)})
		}
	}
	return rs
}

// ClockOffset is how far the wall clock of a machine is off the clock of its cluster.
type ClockOffset struct {
	Ahead  time.Duration // how far the wall clock is ahead; negative if it is behind
	Within time.Duration // by how much Ahead may be wrong
}

// maxOffset is how far a wall clock may certainly be off before that is reported.
const maxOffset = time.Second

// IsOff reports whether the wall clock is certainly off by more than a second.
func (o ClockOffset) IsOff() bool { return o.Ahead.Abs()-o.Within > maxOffset }

// ClockOffset returns how far the wall clock of this machine is off the clock of the cluster. It
// reports false if the tasks go by the wall clock: see [Engine.Now].
func (e *Engine) ClockOffset() (o ClockOffset, ok bool) {
	if e.base.shared == nil {
		return o, false
	}
	now := e.base.moment()
	shared, within, ok := e.base.shared.ClockAt(now)
	if !ok {
		return o, false
	}
	return ClockOffset{now.Round(0).Sub(shared.Round(0)), within}, true
}

// clockWatch logs that the wall clock is off the clock of the cluster, once, and that it agrees again.
// One goroutine uses it.
type clockWatch struct {
	log   *slog.Logger
	isOff bool // that was logged
}

// look logs the changes of the offset o.
func (w *clockWatch) look(o ClockOffset) {
	switch agrees := o.Ahead.Abs()+o.Within < maxOffset; {
	case o.IsOff() && !w.isOff:
		w.isOff = true
		w.log.Warn("the clock of this machine is not that of the cluster; tasks go by the clock of the cluster and are not affected; "+
			"find out which of the two clocks is wrong, and set it by NTP", "ahead", o.Ahead.Round(time.Millisecond), "within", o.Within.Round(time.Millisecond))
	case agrees && w.isOff:
		w.isOff = false
		w.log.Info("the clock of this machine agrees with that of the cluster again", "ahead", o.Ahead.Round(time.Millisecond), "within", o.Within.Round(time.Millisecond))
	}
}

// shortLock is how long transactions of others may keep locks before they are reported.
const shortLock = 2 * time.Second

// Blockers returns the sessions of the store's databases that have been in a transaction for two seconds or more in which
// they have locked rows or tables of tasks: others wait for these locks. The oldest is the first. The error wraps
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
