package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// keep is how long a job is kept that has ended.
const keep = 30 * 24 * time.Hour

// TypePolicy returns the policy of [bulk.Type]: a job that cannot go on is tried again until it can.
func TypePolicy() policy.Type {
	p := policy.DefaultType()
	p.Priority, p.Slotless = task.HighestPriority, true
	p.MaxCrashes = 0
	p.Timeout.Run = 0 // a slow job takes days
	p.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Second, Factor: 2, Max: time.Minute}}
	p.Retention = policy.Retention{Done: keep, Failed: keep, Cancelled: keep}
	return p
}

// Config describes how a node runs jobs.
type Config struct {
	Log *slog.Logger // nil: nothing is logged

	// Changed is called with each task after a job has changed its state, by one goroutine of each job. It may be nil.
	Changed func(*task.Task)
}

// Handler returns the handler of [bulk.Type]. Every engine with a store that may have jobs needs it.
func Handler(c Config) task.HandlerFunc {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	left := &leftovers{of: make(map[task.ID]*bulk.State)}
	return func(ctx context.Context, t *task.Task) ([]byte, error) {
		e, ok := engine.FromContext(ctx)
		if !ok {
			return nil, errors.New("a bulk job must be run by an engine")
		}
		r, err := newRun(c, e, t, left)
		if err != nil { // another node may have a newer program, which has written it
			return nil, err
		}
		hadEnded := !r.state.Ended.IsZero()
		if !hadEnded {
			if err := r.do(ctx); err != nil {
				left.keep(t.ID, r.last)
				return nil, fmt.Errorf("bulk job %s: %w", r.job.Name, err)
			}
		}
		if r.job.Paused && !r.job.Stopped {
			data, err := r.state.Encode()
			if err != nil {
				return nil, err
			}
			return nil, task.Again(never, task.WithCheckpoint(data))
		}
		if where := r.where.WithoutContent(); !hadEnded && r.job.Verb == bulk.Erase && where != r.job.Where {
			return nil, r.forget(where)
		}
		r.logEnd(ctx)
		return r.state.Encode()
	}
}

// forget has a job run once more, with a filter without the values that the tasks had that it has erased.
func (r *run) forget(where string) error {
	r.job.Where = where
	payload, err := r.job.Encode()
	if err != nil {
		return err
	}
	state, err := r.state.Encode()
	if err != nil {
		return err
	}
	return task.Again(r.engine.Now(), task.WithPayload(payload), task.WithCheckpoint(state))
}

// never is when a paused job runs again: an order makes it run earlier.
var never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// ActionOf returns what a job does with a task. An error wraps [engine.ErrInvalid] if there are no such tasks.
func ActionOf(j *bulk.Job) (engine.Action, error) {
	a, err := verbOf(j)
	return a.ByJob(j.Name, j.By), err
}

func verbOf(j *bulk.Job) (engine.Action, error) {
	switch j.Verb {
	case bulk.Resume:
		return engine.Resuming(), nil
	case bulk.Cancel:
		return engine.Cancelling(j.Reason), nil
	case bulk.Fail:
		return engine.Failing(j.Reason), nil
	case bulk.Reschedule:
		return engine.Rescheduling(j.At)
	case bulk.Set:
		v := engine.Values{Priority: j.Priority, Payload: j.Payload, Headers: j.Headers}
		if !j.At.IsZero() {
			v.At = &j.At
		}
		return engine.Setting(v)
	case bulk.Undo:
		return engine.Undoing(j.Of), nil
	case bulk.Delete:
		return engine.Deleting(), nil
	case bulk.Erase:
		return engine.Erasing(task.Erasure{By: j.By, Job: j.Name}), nil
	}
	return engine.Action{}, fmt.Errorf("this node does not know the verb %q: it is older than the one that took the order", j.Verb)
}

func (r *run) logEnd(ctx context.Context) {
	s := &r.state
	verb := "a bulk job has ended"
	if s.Stopped {
		verb = "a bulk job was stopped"
	}
	r.Log.InfoContext(ctx, verb, "job", r.job.Name, "verb", string(r.job.Verb), "where", r.job.Logged(), "by", r.job.By,
		"changed", s.Changed, "skipped", s.Skipped, "refused", s.Refused, "unclear", s.Unclear)
}
