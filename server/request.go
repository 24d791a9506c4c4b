package server

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// requestOf converts a message. It rejects values that the engine's types cannot hold; the engine checks the rest.
func requestOf(m *taskenginev1.NewTask, now time.Time) (r engine.Request, err error) {
	r = engine.Request{
		Type: m.GetType(), Key: m.GetKey(), OrderingKey: m.GetOrderingKey(), Headers: m.GetHeaders(),
	}
	if m.GetId() != "" {
		if r.ID, err = parseID(m.GetId()); err != nil {
			return r, err
		}
	}
	switch in := m.GetInput().(type) {
	case *taskenginev1.NewTask_Payload:
		r.Payload = in.Payload
	case *taskenginev1.NewTask_Text:
		r.Payload = []byte(in.Text)
	}
	if m.Priority != nil {
		if m.GetPriority() > uint32(task.LowestPriority) {
			return r, invalid("priority is %d, of 0 (sooner) to 9 (later)", m.GetPriority())
		}
		p := uint8(m.GetPriority())
		r.Priority = &p
	}
	if r.At, err = moment(m.GetAt(), m.GetIn(), now); err != nil {
		return r, err
	}
	if r.ExpiresAt, err = timeOf("expires_at", m.GetExpiresAt()); err != nil {
		return r, err
	}
	r.AfterAny = m.GetAfterAny()
	for _, id := range m.GetAfter() {
		after, err := task.ParseID(id)
		if err != nil {
			return r, invalid("after: %v", err)
		}
		r.After = append(r.After, after)
	}
	return r, nil
}

// requestsOf converts a batch of messages.
func requestsOf(ms []*taskenginev1.NewTask, now time.Time) ([]engine.Request, error) {
	if len(ms) == 0 {
		return nil, invalid("tasks is empty")
	}
	if len(ms) > MaxSubmit {
		return nil, invalid("%d tasks, of %d allowed in one request", len(ms), MaxSubmit)
	}
	reqs := make([]engine.Request, len(ms))
	for i, m := range ms {
		r, err := requestOf(m, now)
		if err != nil && len(ms) > 1 {
			return nil, fmt.Errorf("task %d of %d: %w", i+1, len(ms), err)
		}
		if err != nil {
			return nil, err
		}
		reqs[i] = r
	}
	return reqs, nil
}

// moment returns the time that is given as at or in, zero if neither is given.
func moment(at *timestamppb.Timestamp, in *durationpb.Duration, now time.Time) (time.Time, error) {
	if at != nil && in != nil {
		return time.Time{}, invalid("at and in exclude each other")
	}
	if in == nil {
		return timeOf("at", at)
	}
	d, err := durationOf("in", in)
	if err != nil {
		return time.Time{}, err
	}
	return now.Add(d), nil
}

func timeOf(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, invalid("%s: %w", field, err)
	}
	// For the engine the zero time means none, but the client gave a time.
	if at := t.AsTime(); !at.IsZero() {
		return at, nil
	}
	return time.Time{}, invalid("%s: times must lie between the years 1970 and 9999", field)
}

// durationOf converts a duration; zero if there is none.
func durationOf(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, invalid("%s: %w", field, err)
	}
	if d.AsDuration() < 0 {
		return 0, invalid("%s must not be negative", field)
	}
	return d.AsDuration(), nil
}

func filterOf(states, types []string) (storage.Filter, error) {
	if len(states) > MaxFilter || len(types) > MaxFilter {
		return storage.Filter{}, invalid("more than %d states or types", MaxFilter)
	}
	f := storage.Filter{Types: types}
	for _, name := range states {
		var s task.State
		if err := s.UnmarshalText([]byte(name)); err != nil {
			return f, invalid("states: %w", err)
		}
		f.States = append(f.States, s)
	}
	return f, nil
}
