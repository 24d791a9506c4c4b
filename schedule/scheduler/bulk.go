package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/schedule"
)

// Verb is a change of many schedules.
type Verb struct {
	name string
	give func(now time.Time, at *Schedule) *schedule.Order // as of Schedules.change
}

// Pausing is the [Verb] of [Schedules.Pause].
func Pausing(reason string) Verb {
	return Verb{"pause", func(now time.Time, at *Schedule) *schedule.Order {
		if at.State.Paused != nil {
			return nil
		}
		return &schedule.Order{Pause: &schedule.Pause{At: now, Reason: reason}}
	}}
}

// Resuming is the [Verb] of [Schedules.Resume].
func Resuming() Verb {
	return Verb{"resume", func(_ time.Time, at *Schedule) *schedule.Order {
		if at.State.Paused == nil {
			return nil
		}
		return &schedule.Order{Resume: true}
	}}
}

// Deleting is the [Verb] of [Schedules.Delete].
func Deleting() Verb {
	return Verb{"delete", func(time.Time, *Schedule) *schedule.Order { return &schedule.Order{Delete: true} }}
}

// Changed is the outcome of a change of a part of the schedules with a prefix.
type Changed struct {
	Changed   int       // how many were changed, or would be
	Unchanged int       // how many were paused already, or not paused, or were deleted
	Failed    []Failure // the ones that could not be changed
	Next      string    // the name to go on after; "" at the end
}

// Failure is the reason that one schedule was not changed.
type Failure struct {
	Name string
	Err  error
}

// ChangeAll changes the schedules with names that begin with prefix, in the order of their names: at most limit of those after
// the one with the name after ("": from the first). With dryRun it only counts them. Each schedule is changed by itself, so a
// call that ended with an error, or with its node, has changed some of them: the same call changes the rest. A schedule that
// refuses the change is a Failure, and the others are changed.
func (s Schedules) ChangeAll(ctx context.Context, v Verb, prefix, after string, limit int, dryRun bool) (*Changed, error) {
	holders, err := s.engine.Keyed(ctx, schedule.Type, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list the schedules: %w", err)
	}
	changed, failed := make([]bool, len(holders)), make([]error, len(holders))
	err = inParallel(ctx, len(holders), func(ctx context.Context, i int) (err error) {
		changed[i], err = s.changeOne(ctx, v, holders[i].Key, dryRun)
		if isOfOne(err) {
			failed[i], err = err, nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s the schedules that begin with %q: %w", v.name, prefix, err)
	}
	all := new(Changed)
	for i, h := range holders {
		switch {
		case failed[i] != nil:
			all.Failed = append(all.Failed, Failure{h.Key, failed[i]})
		case changed[i]:
			all.Changed++
		default:
			all.Unchanged++
		}
	}
	if n := len(holders); n > 0 && n == limit {
		all.Next = holders[n-1].Key
	}
	return all, nil
}

// isOfOne reports whether an error is about one schedule, and not about the store or the coordinator.
func isOfOne(err error) bool {
	for _, of := range []error{ErrInvalid, ErrBusy, ErrUnreadable, ErrTaken, ErrVersion, engine.ErrInvalid, engine.ErrNotAllowed, engine.ErrUnreadable} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// changeOne gives an order to one schedule, and reports whether that changes it.
func (s Schedules) changeOne(ctx context.Context, v Verb, name string, dryRun bool) (isChanged bool, err error) {
	if dryRun {
		at, err := s.Get(ctx, name)
		switch {
		case errors.Is(err, ErrUnknown):
			return false, nil
		case err != nil:
			return false, err
		case at.Problem != nil && v.name == "delete" && !endedByHand(at.Task):
			return true, nil
		}
		return v.give(s.engine.Now(), at) != nil, refusal(at, v.name)
	}
	isGiven := true // a deletion of a schedule that cannot be read asks for no order
	err = s.change(ctx, name, v.name, func(now time.Time, at *Schedule) *schedule.Order {
		o := v.give(now, at)
		isGiven = o != nil
		return o
	})
	if errors.Is(err, ErrUnknown) { // it is deleted
		return false, nil
	}
	return isGiven && err == nil, err
}
