package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/schedule"
)

// ErrVersion says that a schedule has another version than the one that the caller names.
var ErrVersion = errors.New("the schedule has another version")

// Outcome is the effect of an Apply.
type Outcome uint8

// The outcomes of Apply.
const (
	Unchanged Outcome = iota
	Created
	Updated
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	return [...]string{Unchanged: "unchanged", Created: "created", Updated: "updated"}[o]
}

// Wanted is a schedule as [Schedules.ApplyAll] makes it.
type Wanted struct {
	Name       string
	Definition schedule.Definition
	Version    *uint64 // the version that the schedule must have, 0 if there must be none; nil: any
}

// Applied is the effect of [Schedules.ApplyAll] on one schedule.
type Applied struct {
	Outcome Outcome
	Version uint64 // of the schedule then
	Err     error
}

// ApplyAll applies schedules as ApplyVersion does, each by itself. If the store or the coordinator fails, it returns an error, and
// some of the schedules may be applied: the same call applies the rest.
func (s Schedules) ApplyAll(ctx context.Context, all []Wanted) ([]Applied, error) {
	done := make([]Applied, len(all))
	err := inParallel(ctx, len(all), func(ctx context.Context, i int) error {
		one := &done[i]
		one.Outcome, one.Version, one.Err = s.ApplyVersion(ctx, all[i])
		if one.Err != nil && !isOfOne(one.Err) {
			return one.Err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// Apply creates schedule name with definition d, or changes it. A new definition fires for times after now: the old one
// decides about the times before. Apply revives a deleted schedule. It does not end a pause. It also revives a schedule
// after its task was ended by hand: the schedule itself was not deleted, so it catches up with the times it missed.
func (s Schedules) Apply(ctx context.Context, name string, d schedule.Definition) (Outcome, error) {
	outcome, _, err := s.ApplyVersion(ctx, Wanted{Name: name, Definition: d})
	return outcome, err
}

// ApplyVersion is Apply, and returns the version of the schedule. If the schedule does not have w.Version, it changes nothing and
// returns an error that wraps [ErrVersion], unless the schedule has the definition already: so a call may be repeated after its
// answer was lost.
func (s Schedules) ApplyVersion(ctx context.Context, w Wanted) (outcome Outcome, version uint64, err error) {
	if _, err := w.Definition.Calendar(w.Name); err != nil {
		return Unchanged, 0, fmt.Errorf("%w: %s: %w", ErrInvalid, w.Name, err)
	}
	var isAdded bool
	if w.Version == nil || *w.Version == 0 {
		receipt, err := s.engine.SubmitReserved(ctx, reserved.Owner{}, requestOf(schedule.Named{Name: w.Name, Definition: w.Definition}))
		if err != nil {
			return Unchanged, 0, fmt.Errorf("apply schedule %s: %w", w.Name, err)
		}
		isAdded = receipt.Created
	}
	_, hasPeers := peersOf(s.engine)
	if isAdded && !hasPeers {
		return Created, 1, nil
	}
	revived := false
	if w.Version == nil {
		if revived, err = s.revive(ctx, w.Name); err != nil {
			return Unchanged, 0, err
		}
	}
	return s.redefine(ctx, w, isAdded, hasPeers, revived)
}

// redefine is ApplyVersion for a schedule with a row. isAdded says that the call has added the row to this store: the peers may
// have the schedule.
func (s Schedules) redefine(ctx context.Context, w Wanted, isAdded, hasPeers, revived bool) (outcome Outcome, version uint64, err error) {
	var isOther bool
	err = s.change(ctx, w.Name, "apply", func(now time.Time, at *Schedule) *schedule.Order {
		isOther, version = false, at.Version()
		if outcome = Updated; isAdded {
			outcome = Created
		}
		if hasPeers && at.kept.Shared == nil { // it is not shared yet
			return &schedule.Order{Define: &w.Definition}
		}
		if !at.State.Deleted && at.Task.State.Live() && bytes.Equal(schedule.Named{Definition: at.Definition}.Encode(), schedule.Named{Definition: w.Definition}.Encode()) {
			if !revived && !isAdded {
				outcome = Unchanged
			}
			return nil
		}
		if isOther = !w.holds(at); isOther {
			return nil
		}
		version++
		return &schedule.Order{Define: &w.Definition}
	})
	if w.Version != nil && (err == nil && isOther || errors.Is(err, ErrUnknown)) {
		return Unchanged, 0, w.otherError(version)
	}
	if err != nil {
		return Unchanged, 0, err
	}
	return outcome, version, nil
}

// holds reports whether a schedule has the version of w.
func (w *Wanted) holds(at *Schedule) bool {
	switch {
	case w.Version == nil:
		return true
	case at.State.Deleted:
		return *w.Version == 0
	}
	return *w.Version == at.Version()
}

// otherError returns the error of a schedule with another version; 0 is none.
func (w *Wanted) otherError(version uint64) error {
	switch {
	case version == 0:
		return fmt.Errorf("apply schedule %s: %w: there is no schedule with this name, and the request names version %d", w.Name, ErrVersion, *w.Version)
	case *w.Version == 0:
		return fmt.Errorf("apply schedule %s: %w: there is one already, with version %d", w.Name, ErrVersion, version)
	}
	return fmt.Errorf("apply schedule %s: %w: %d, and the request names %d; read it again", w.Name, ErrVersion, version, *w.Version)
}

// busyPatience is how long ApplyLater waits for a schedule that runs: on a node that has died, it runs until the others know.
const busyPatience = 2 * time.Minute

// ApplyLater is Apply for a program that starts. While the schedule runs, it waits, for two minutes at most.
func (s Schedules) ApplyLater(ctx context.Context, name string, d schedule.Definition) (Outcome, error) {
	for end := time.Now().Add(busyPatience); ; {
		outcome, err := s.Apply(ctx, name, d)
		if !errors.Is(err, ErrBusy) || time.Now().After(end) {
			return outcome, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return outcome, fmt.Errorf("apply schedule %s: %w", name, context.Cause(ctx))
		}
	}
}

// revive has the task of a schedule run again if it was ended by hand, and reports whether it was.
func (s Schedules) revive(ctx context.Context, name string) (revived bool, err error) {
	at, err := s.get(ctx, name)
	if err != nil || !endedByHand(at.Task) {
		return false, err
	}
	_, err = s.engine.Resume(ctx, at.Task.Ref())
	if err != nil && !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed) {
		return false, fmt.Errorf("revive schedule %s: %w", name, err)
	}
	return true, nil
}
