package server

import (
	"encoding"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// definitionOf converts a message. It rejects values that a definition cannot hold; package schedule checks the rest.
func definitionOf(m *taskenginev1.ScheduleDefinition) (d schedule.Definition, err error) {
	if m == nil {
		return d, invalid("definition is missing")
	}
	d = schedule.Definition{Cron: m.GetCron(), TimeZone: m.GetTimezone()}
	for _, w := range []struct {
		field, word string
		into        encoding.TextUnmarshaler
	}{
		{"gap", m.GetGap(), &d.Gap},
		{"repeat", m.GetRepeat(), &d.Repeat},
		{"overlap", m.GetOverlap(), &d.Overlap},
		{"catch_up.policy", m.GetCatchUp().GetPolicy(), &d.CatchUp.Policy},
	} {
		if w.word == "" {
			continue // the default
		}
		if err := w.into.UnmarshalText([]byte(w.word)); err != nil {
			return d, invalid("%s: %w", w.field, err)
		}
	}
	if d.Anchor, err = timeOf("anchor", m.GetAnchor()); err != nil {
		return d, err
	}
	if d.Start, err = timeOf("start", m.GetStart()); err != nil {
		return d, err
	}
	if d.End, err = timeOf("end", m.GetEnd()); err != nil {
		return d, err
	}
	if d.Every, err = durationOf("every", m.GetEvery()); err != nil {
		return d, err
	}
	if d.Jitter, err = durationOf("jitter", m.GetJitter()); err != nil {
		return d, err
	}
	d.CatchUp.Max = int(min(m.GetCatchUp().GetMax(), math.MaxInt32))
	if d.CatchUp.Window, err = durationOf("catch_up.window", m.GetCatchUp().GetWindow()); err != nil {
		return d, err
	}
	d.Task, err = templateOf(m.GetTask())
	return d, err
}

// templateOf converts the description of the tasks of a schedule.
func templateOf(m *taskenginev1.ScheduleTask) (t schedule.Template, err error) {
	t = schedule.Template{Type: m.GetType(), Workflow: m.GetWorkflow(), Payload: m.GetPayload(), Headers: m.GetHeaders()}
	if m.GetPriority() > uint32(task.LowestPriority) {
		return t, invalid("task.priority is %d, of 0 (sooner) to %d (later)", m.GetPriority(), task.LowestPriority)
	}
	if m != nil && m.Priority != nil {
		p := uint8(m.GetPriority())
		t.Priority = &p
	}
	t.Expires, err = durationOf("task.expires", m.GetExpires())
	return t, err
}

// DefinitionMessage returns the message of a definition.
func DefinitionMessage(d *schedule.Definition) *taskenginev1.ScheduleDefinition {
	m := &taskenginev1.ScheduleDefinition{
		Cron: text(d.Cron), Timezone: text(d.TimeZone), Gap: d.Gap.String(), Repeat: d.Repeat.String(), Every: span(d.Every), Anchor: stamp(d.Anchor), Start: stamp(d.Start), End: stamp(d.End),
		Jitter: span(d.Jitter), Overlap: d.Overlap.String(),
		CatchUp: &taskenginev1.ScheduleCatchUp{Policy: d.CatchUp.Policy.String(), Max: uint32(d.CatchUp.Max), Window: span(d.CatchUp.Window)},
		Task:    &taskenginev1.ScheduleTask{Type: text(d.Task.Type), Workflow: text(d.Task.Workflow), Payload: text(d.Task.Payload), Expires: span(d.Task.Expires)},
	}
	if d.Task.Priority != nil {
		p := uint32(*d.Task.Priority)
		m.Task.Priority = &p
	}
	if len(d.Task.Headers) > 0 {
		m.Task.Headers = make(map[string]string, len(d.Task.Headers))
		for k, v := range d.Task.Headers {
			m.Task.Headers[text(k)] = text(v)
		}
	}
	return m
}

// ScheduleTimes returns the messages of the times of a preview.
func ScheduleTimes(moments []schedule.Moment) []*taskenginev1.ScheduleTime {
	ms := make([]*taskenginev1.ScheduleTime, len(moments))
	for i, m := range moments {
		ms[i] = &taskenginev1.ScheduleTime{Time: stamp(m.Time), Local: m.Time.Format(time.RFC3339Nano), Repeated: m.Again}
		if !m.Named.IsZero() {
			ms[i].MovedFrom = m.Named.Format("2006-01-02T15:04:05")
		}
	}
	return ms
}

// span returns the message of a duration; nil for zero.
func span(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// scheduleOf returns the message of a schedule.
func (a *API) scheduleOf(s *scheduler.Schedule) *taskenginev1.Schedule {
	m := &taskenginev1.Schedule{
		Name: text(s.Name), Definition: DefinitionMessage(&s.Definition), TaskId: s.Task.ID.String(), Last: fireOf(s.State.Last),
		Fires: s.State.Fires, Missed: s.State.Missed, Overlapped: s.State.Overlapped, Orders: uint32(len(s.State.Orders)),
	}
	if p := s.State.Paused; p != nil {
		m.Paused = &taskenginev1.SchedulePause{Since: stamp(p.At), Reason: text(p.Reason)}
	} else if s.Problem != nil { // nothing of it is known
	} else if next, err := s.Definition.Preview(s.Name, a.engine.Now(), 1); err == nil && len(next) > 0 && s.Task.State.Live() {
		m.Next = stamp(next[0].Time)
	}
	for _, at := range s.State.Waiting {
		m.Waiting = append(m.Waiting, stamp(at))
	}
	for _, f := range s.State.Running {
		m.Running = append(m.Running, fireOf(f))
	}
	m.Attempt, m.Error, m.Version = s.FailedAttempts(), text(s.Error()), s.Version()
	return m
}

// fireOf returns the message of a fire; nil if there was none.
func fireOf(f schedule.Fire) *taskenginev1.ScheduleFire {
	if f.Task.IsZero() {
		return nil
	}
	return &taskenginev1.ScheduleFire{Time: stamp(f.Time), TaskId: f.Task.String()}
}
