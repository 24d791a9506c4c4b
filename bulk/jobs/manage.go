package jobs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/task"
)

// Errors that callers match with [errors.Is].
var (
	// ErrUnknown says that there is no job with the name.
	ErrUnknown = errors.New("there is no bulk job with this name")
	// ErrTaken says that another job has the name.
	ErrTaken = errors.New("another bulk job has this name")
	// ErrEnded says that a job takes no order any more. It wraps [engine.ErrNotAllowed].
	ErrEnded = fmt.Errorf("%w: the bulk job has ended", engine.ErrNotAllowed)
	// ErrRuns says that a job cannot be undone before it has ended. It wraps [engine.ErrNotAllowed].
	ErrRuns = fmt.Errorf("%w: the bulk job has not ended: stop it before it is undone", engine.ErrNotAllowed)
	// ErrBusy says that a job did not stand still for long enough to be changed.
	ErrBusy = errors.New("the bulk job changes all the time")
)

// Jobs are the jobs of an engine. It is safe for concurrent use.
type Jobs struct{ engine *engine.Engine }

// Of returns the jobs that an engine runs. The engine must have the [Handler] and the [TypePolicy].
func Of(e *engine.Engine) Jobs { return Jobs{e} }

// Status is a job at one moment.
type Status struct {
	Job     bulk.Job
	State   bulk.State
	Task    task.ID
	Phase   Phase
	Problem string // why it does not go on; "" if it does
}

// Phase says whether a job runs.
type Phase string

// The phases of a job.
const (
	Running Phase = "running"
	Paused  Phase = "paused"
	Done    Phase = "done"
	Stopped Phase = "stopped"
	Ended   Phase = "ended" // its task was cancelled or failed by hand
)

// HasEnded reports whether a job is over.
func (s *Status) HasEnded() bool { return s.Phase != Running && s.Phase != Paused }

// NewName returns a name for a job: it begins with the time, so that names are in the order of the jobs.
func NewName(now time.Time) string {
	var random [3]byte
	_, _ = rand.Read(random[:]) // never fails
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
}

// Start adds a job, which was prepared. If there is a job with its name and order, Start returns that.
func (j Jobs) Start(ctx context.Context, job bulk.Job) (*Status, error) {
	job.Note(bulk.Event{At: job.Ordered, By: job.By, What: "ordered", Reason: job.Reason})
	payload, err := job.Encode()
	if err != nil {
		return nil, err
	}
	_, err = j.engine.SubmitReserved(ctx, reserved.Owner{}, task.Request{ID: bulk.IDOf(job.Name), Type: bulk.Type, Key: job.Name, Payload: payload})
	if err != nil {
		return nil, fmt.Errorf("add the bulk job %s: %w", job.Name, err)
	}
	s, err := j.Get(ctx, job.Name)
	if err == nil && (s.Job.Verb != job.Verb || s.Job.Of != job.Of || s.Job.By != job.By || s.Job.Reason != job.Reason || s.Job.Rate != job.Rate) {
		err = fmt.Errorf("%w: %s", ErrTaken, job.Name)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Undo makes undo a job that undoes the job with a name, which has ended. It is neither prepared nor started.
func (j Jobs) Undo(ctx context.Context, name string, undo *bulk.Job) error {
	of, err := j.Get(ctx, name)
	switch {
	case err != nil:
		return err
	case !of.HasEnded():
		return fmt.Errorf("%w: %s", ErrRuns, name)
	}
	return undo.Undo(&of.Job, of.State.Changed)
}

// Get returns a job.
func (j Jobs) Get(ctx context.Context, name string) (*Status, error) {
	t, err := j.read(ctx, name)
	if err != nil {
		return nil, err
	}
	return statusOf(t)
}

func (j Jobs) read(ctx context.Context, name string) (*task.Task, error) {
	if err := bulk.CheckName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", bulk.ErrInvalid, err)
	}
	t, err := j.engine.Get(ctx, bulk.IDOf(name))
	switch {
	case errors.Is(err, task.ErrNotFound):
		return nil, fmt.Errorf("%w: %s", ErrUnknown, name)
	case err != nil:
		return nil, fmt.Errorf("read the bulk job %s: %w", name, err)
	}
	return t, nil
}

func statusOf(t *task.Task) (s *Status, err error) {
	s = &Status{Task: t.ID}
	if s.Job, err = bulk.Decode(t.Payload); err != nil {
		return nil, err
	}
	data := t.Checkpoint()
	if t.State == task.Done {
		data = t.Result
	}
	if s.State, err = bulk.DecodeState(data); err != nil {
		return nil, err
	}
	switch {
	case t.State == task.Done && s.State.Stopped:
		s.Phase = Stopped
	case t.State == task.Done:
		s.Phase = Done
	case !t.State.Live():
		s.Phase, s.Problem = Ended, t.LastError
	case s.Job.Paused:
		s.Phase = Paused
	default:
		s.Phase = Running
		if t.State == task.Waiting && t.Attempt > 0 {
			s.Problem = t.LastError
		}
	}
	return s, nil
}

// Names returns the names of all jobs, in their order. It reads an index.
func (j Jobs) Names(ctx context.Context) (names []string, err error) {
	const some = 1000
	for after := ""; ; {
		page, err := j.engine.Keyed(ctx, bulk.Type, "", after, some)
		if err != nil {
			return nil, fmt.Errorf("list the bulk jobs: %w", err)
		}
		for _, h := range page {
			names = append(names, h.Key)
		}
		if len(page) < some {
			return names, nil
		}
		after = page[len(page)-1].Key
	}
}

// List returns at most limit jobs, the newest first by their names: those with names less than before ("": from the newest). Jobs that cannot be
// read are left out.
func (j Jobs) List(ctx context.Context, before string, limit int) (all []*Status, err error) {
	names, err := j.Names(ctx)
	if err != nil {
		return nil, err
	}
	if end, _ := slices.BinarySearch(names, before); before != "" {
		names = names[:end]
	}
	for _, name := range slices.Backward(names[max(0, len(names)-limit):]) {
		s, err := j.Get(ctx, name)
		switch {
		case errors.Is(err, ErrUnknown):
		case err != nil:
			return nil, err
		default:
			all = append(all, s)
		}
	}
	return all, nil
}

// Pause has a job change no tasks until Continue. The part that it is at may still be changed.
func (j Jobs) Pause(ctx context.Context, name, by, reason string) (*Status, error) {
	return j.order(ctx, name, bulk.Event{What: "paused", By: by, Reason: reason}, func(job *bulk.Job) bool {
		was := job.Paused
		job.Paused = true
		return !was
	})
}

// Continue ends a pause.
func (j Jobs) Continue(ctx context.Context, name, by, reason string) (*Status, error) {
	return j.order(ctx, name, bulk.Event{What: "continued", By: by, Reason: reason}, func(job *bulk.Job) bool {
		was := job.Paused
		job.Paused = false
		return was
	})
}

// SetRate changes the rate of a job; 0 is as fast as possible.
func (j Jobs) SetRate(ctx context.Context, name string, rate float64, by string) (*Status, error) {
	return j.order(ctx, name, bulk.Event{What: fmt.Sprintf("rate %g/s", rate), By: by}, func(job *bulk.Job) bool {
		was := job.Rate
		job.Rate = rate
		return was != rate
	})
}

// Stop ends a job. Tasks that it has changed stay so.
func (j Jobs) Stop(ctx context.Context, name, by, reason string) (*Status, error) {
	return j.order(ctx, name, bulk.Event{What: "stopped", By: by, Reason: reason}, func(job *bulk.Job) bool {
		was := job.Stopped
		job.Stopped = true
		return !was
	})
}

const (
	changeTries = 500
	changePause = 20 * time.Millisecond // between two tries
)

// order changes what is ordered of a job, and has it run now. If change returns false, there is nothing to do.
func (j Jobs) order(ctx context.Context, name string, e bulk.Event, change func(*bulk.Job) bool) (*Status, error) {
	for range changeTries {
		t, err := j.read(ctx, name)
		if err != nil {
			return nil, err
		}
		s, err := statusOf(t)
		switch {
		case err != nil:
			return nil, err
		case s.HasEnded():
			return s, fmt.Errorf("%w: %s is %s", ErrEnded, name, s.Phase)
		case !change(&s.Job):
			return s, nil
		}
		now := task.Stamp(j.engine.Now())
		e.At = now
		s.Job.Note(e)
		payload, err := s.Job.Encode()
		if err != nil {
			return nil, err
		}
		_, err = j.engine.Edit(ctx, t.Ref(), engine.Edit{At: &now, Payload: &payload, Interrupts: true})
		switch {
		case err == nil:
			return j.Get(ctx, name)
		case !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed):
			return nil, fmt.Errorf("change the bulk job %s: %w", name, err)
		}
		select {
		case <-time.After(changePause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrBusy, name)
}
