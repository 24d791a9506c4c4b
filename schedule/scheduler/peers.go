package scheduler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/task"
)

// settingsName is the name of the settings that keep the schedules of nodes with stores of their own, by name.
const settingsName = "schedules"

const (
	askPatience = 10 * time.Second // with the coordinator, for each question
	askAgain    = time.Second      // after the coordinator has not answered
	swapTries   = 20               // of a run that others are faster than
)

// peers are the nodes with stores of their own that have the same schedules as an engine.
type peers struct {
	engine   *engine.Engine
	settings coord.Config
	patience time.Duration // with the node that fires a schedule
	members  []coord.Member

	workflows Workflows // of this node, in a run of a schedule
}

// peersOf returns the peers of an engine; false if it has none.
func peersOf(e *engine.Engine) (peers, bool) {
	p, ok := e.Peers()
	return peers{engine: e, settings: p.Settings, patience: 2 * p.Lease, members: p.Members}, ok
}

// kept is a schedule as the peers keep it.
type kept struct {
	*schedule.Shared        // nil if they keep none with its name
	version          uint64 // of the setting
}

// read returns the schedule with a name.
func (p peers) read(ctx context.Context, name string) (kept, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askPatience, fmt.Errorf("the coordinator did not answer for %v", askPatience))
	defer cancel()
	one, _, err := p.settings.Swap(ctx, settingsName, name, math.MaxUint64, []byte{}) // it has another version: this reads one setting
	if err != nil {
		return kept{}, fmt.Errorf("ask the coordinator for schedule %s: %w", name, err)
	}
	return p.open(one)
}

// open returns the schedule in a setting.
func (p peers) open(one coord.Setting) (kept, error) {
	if one.Version == 0 {
		return kept{}, nil
	}
	text, err := p.engine.Unseal(schedule.Type, one.Value)
	if err != nil {
		return kept{}, fmt.Errorf("schedule %s, as the coordinator keeps it: %w", one.Scope, err)
	}
	s, err := schedule.DecodeShared(text)
	if err != nil {
		return kept{}, fmt.Errorf("schedule %s, as the coordinator keeps it: %w", one.Scope, err)
	}
	return kept{s, one.Version}, nil
}

// swap replaces was by next. It reports false if the schedule has changed since was was read. After an error it may have
// been replaced.
func (p peers) swap(ctx context.Context, was kept, next *schedule.Shared) (bool, error) {
	next.Seq++
	value, err := p.engine.Seal(schedule.Type, next.Encode())
	if err != nil {
		return false, fmt.Errorf("schedule %s: %w", next.Name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askPatience, fmt.Errorf("the coordinator did not answer for %v", askPatience))
	defer cancel()
	_, swapped, err := p.settings.Swap(ctx, settingsName, next.Name, was.version, value)
	if err != nil {
		return false, fmt.Errorf("change schedule %s at the coordinator: %w", next.Name, err)
	}
	return swapped, nil
}

// all returns the schedules that can be read, by name.
func (p peers) all(ctx context.Context) (map[string]kept, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askPatience, fmt.Errorf("the coordinator did not answer for %v", askPatience))
	defer cancel()
	settings, err := p.settings.Settings(ctx, settingsName)
	if err != nil {
		return nil, fmt.Errorf("ask the coordinator for the schedules: %w", err)
	}
	all := make(map[string]kept, len(settings))
	for _, one := range settings {
		if k, err := p.open(one); err == nil {
			all[one.Scope] = k
		}
	}
	return all, nil
}

// self returns this node as one that looks at a schedule.
func (p peers) self() *schedule.Peer {
	return &schedule.Peer{
		Owner: schedule.Owner{ID: p.engine.Incarnation(), Name: p.engine.Name()}, Now: task.Stamp(p.engine.Now()), Patience: p.patience,
		Handles: func(t *schedule.Template) bool { return p.engine.Handles(t.TaskType()) && p.workflows.has(t) },
		IsAlive: func(node task.ID) bool {
			isNode := func(m coord.Member) bool { return m.Uses(node) }
			return p.members == nil || slices.ContainsFunc(p.members, isNode)
		},
	}
}

// run runs a schedule that the peers share. r and s come from the store of this node.
func (p peers) run(ctx context.Context, t *task.Task, r schedule.Named, s schedule.State) error {
	if s.Copy == nil {
		s.Copy = new(schedule.Copy)
	}
	if now := task.Stamp(p.engine.Now()); s.Copy.Begin(p.engine.Incarnation(), now) { // before it claims anything
		return task.Again(now, task.WithCheckpoint(s.Encode()))
	}
	for range swapTries {
		was, err := p.read(ctx, r.Name)
		if err != nil {
			return awayError(err)
		}
		if done, err := p.try(ctx, t, was, r, s); err != nil {
			return awayError(err)
		} else if done != nil {
			return done
		}
	}
	return task.RetryIn(askAgain, fmt.Errorf("schedule %s: other nodes have changed it, %d times in a row", r.Name, swapTries))
}

// awayError wraps err so that the schedule soon tries the coordinator again.
func awayError(err error) error {
	if errors.Is(err, engine.ErrUnreadable) {
		return err
	}
	return task.RetryIn(askAgain, err)
}

// try does the present work of the schedule, and returns the result of the handler as done. done is nil if the schedule
// has changed since was was read.
func (p peers) try(ctx context.Context, t *task.Task, was kept, r schedule.Named, s schedule.State) (done, err error) {
	self := p.self()
	now, isNew := schedule.Join(r, s, was.Shared, t.CreatedAt, self.Now)
	s = now.Stored(s.Copy, nil, self.Now)
	if claim := now.Owed(s.Copy); claim != nil {
		return p.commit(self, t, now, claim, r, s), nil
	}
	next, isChanged, err := p.settle(ctx, now, s.Copy)
	if err != nil {
		return nil, err
	}
	at, err := next.Turn(s.Copy, self)
	if err != nil {
		return nil, err
	}
	var claim *schedule.Claim
	if isTurn := !isNew && !at.IsZero() && !at.After(self.Now); isTurn {
		if next, claim, err = next.Claim(t.ID, self); err != nil {
			return nil, err
		}
		if claim != nil { // another node may have the workflow
			if _, err := p.requests(next, claim); err != nil {
				return nil, err
			}
		}
	} else if !isNew && !isChanged {
		return again(at, now, s, r), nil
	}
	if swapped, err := p.swap(ctx, was, next); err != nil || !swapped {
		return nil, err
	}
	s = next.Stored(s.Copy, nil, self.Now)
	if claim != nil {
		if err := p.cancel(ctx, next.ToCancel(s.Copy)); err != nil {
			return nil, err // the next attempt commits the claim
		}
		return p.commit(self, t, next, claim, r, s), nil
	}
	if at, err = next.Turn(s.Copy, self); err != nil {
		return nil, err
	}
	return again(at, next, s, r), nil
}

// settle cancels the tasks that this node has to cancel, and returns the schedule with the report of this node about its
// tasks. It reports whether the schedule has changed. All claims of the node are committed.
func (p peers) settle(ctx context.Context, now *schedule.Shared, c *schedule.Copy) (next *schedule.Shared, isChanged bool, err error) {
	if err := p.cancel(ctx, now.ToCancel(c)); err != nil {
		return nil, false, err
	}
	live, err := running(ctx, p.engine, now.Running(c), &schedule.Definition{}) // those to cancel are apart
	if err != nil {
		return nil, false, fmt.Errorf("schedule %s: look at its tasks: %w", now.Name, err)
	}
	next, isChanged = now.Settle(c, p.self().Owner, live)
	return next, isChanged, nil
}

// cancel cancels tasks of this node.
func (p peers) cancel(ctx context.Context, fires []schedule.Fire) error {
	return cancel(ctx, p.engine, fires, "its schedule has fired again")
}

// commit returns the result of a handler that adds the tasks of a claim to the store of its node. The next run reports them
// as committed. If an earlier try failed to add them, and the schedule was deleted since, they are left out.
func (p peers) commit(self *schedule.Peer, t *task.Task, now *schedule.Shared, claim *schedule.Claim, r schedule.Named, s schedule.State) error {
	s = now.Stored(s.Copy, claim, self.Now)
	requests, err := p.requests(now, claim)
	if err != nil {
		return err
	}
	if _, _, isDeleted := now.Requests(claim); isDeleted && (t.Attempt > 1 || hadNoRoom(t)) {
		requests = nil
	}
	return again(self.Now, now, s, r, task.WithTasks(requests...))
}

// requests returns the tasks of a claim; none if the schedule is deleted and the node does not have their workflow.
func (p peers) requests(now *schedule.Shared, claim *schedule.Claim) ([]task.Request, error) {
	all, t, isDeleted := now.Requests(claim)
	all, err := p.workflows.complete(t, all)
	if err != nil && !isDeleted {
		return nil, fmt.Errorf("schedule %s: %w", now.Name, err)
	}
	return all, nil
}

// again returns the result of a handler that runs a shared schedule again at a time, zero is at its next change, and
// stores now and s. r is the stored payload.
func again(at time.Time, now *schedule.Shared, s schedule.State, r schedule.Named, options ...task.AgainOption) error {
	if at.IsZero() {
		at = never
	}
	options = append(options, task.WithCheckpoint(s.Encode()))
	if payload := now.Named.Encode(); !bytes.Equal(payload, r.Encode()) {
		options = append(options, task.WithPayload(payload))
	}
	return task.Again(at, options...)
}
