package client

import (
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// ScheduleGap is the policy for a time of the day that a clock change skips. The empty one is [GapRunAfter].
type ScheduleGap string

// The rules for times that a clock change leaves out.
const (
	GapRunAfter ScheduleGap = "run_after" // the schedule fires at the end of the gap
	GapSkip     ScheduleGap = "skip"      // it does not fire
)

// ScheduleRepeat is the policy for times of the day that a clock change repeats. The empty one is [RepeatFirst].
type ScheduleRepeat string

// The rules for times that a clock change repeats.
const (
	RepeatFirst ScheduleRepeat = "first"
	RepeatBoth  ScheduleRepeat = "both"
)

// ScheduleOverlap is the policy for a fire before the task of an earlier fire has ended. The empty one is [OverlapSkip].
type ScheduleOverlap string

// The rules for a fire while an earlier task has not ended.
const (
	OverlapSkip      ScheduleOverlap = "skip"       // no task is added
	OverlapQueue     ScheduleOverlap = "queue"      // its task is added when the earlier one has ended
	OverlapCancelOld ScheduleOverlap = "cancel_old" // the earlier task is cancelled
	OverlapAllow     ScheduleOverlap = "allow"      // its task is added at once
)

// CatchUpPolicy says for which missed times a schedule adds a task. The empty one is [CatchUpLatest].
type CatchUpPolicy string

// The rules for times at which a schedule could not run.
const (
	CatchUpLatest CatchUpPolicy = "latest" // a task for the latest of them
	CatchUpSkip   CatchUpPolicy = "skip"   // none
	CatchUpAll    CatchUpPolicy = "all"    // a task for each of them
)

// ScheduleDefinition says when a schedule fires and which tasks it adds. Either Cron or Every is given.
type ScheduleDefinition struct {
	Cron     string         // an expression with five fields, or six with the seconds first
	Timezone string         // of Cron: a name of the IANA time zone database; empty: UTC
	Gap      ScheduleGap    // of Cron
	Repeat   ScheduleRepeat // of Cron

	Every  time.Duration // a fixed interval, of at least a second
	Anchor time.Time     // one of the times of Every; zero: the beginning of 1970, UTC

	Start   time.Time       // it does not fire before; zero: no bound
	End     time.Time       // it does not fire after; zero: no bound
	Jitter  time.Duration   // a task starts later by a part of this, which depends on the schedule and the time
	CatchUp ScheduleCatchUp // for the times that it missed
	Overlap ScheduleOverlap

	Task ScheduleTask
}

// ScheduleCatchUp says for which missed times a schedule still adds tasks. The zero value adds a task for the latest of them.
type ScheduleCatchUp struct {
	Policy CatchUpPolicy
	Max    uint32        // of [CatchUpAll]: how many tasks at most, at most 1000; 0: 100
	Window time.Duration // times longer ago are left out; 0: no bound
}

// ScheduleTask describes the tasks that a schedule adds.
type ScheduleTask struct {
	Type     string            // "" if Workflow is given
	Workflow string            // in place of Type: the name of a workflow in the configuration of the nodes
	Payload  string            // with placeholders such as {{date}}, at most 65536 bytes; not in lists; of a workflow: its input, JSON
	Priority *uint8            // 0 (sooner) to 9 (later); nil: the priority of the type
	Headers  map[string]string // nil: none
	Expires  time.Duration     // a task that has not begun this long after its time becomes an error; 0: no bound
}

// Schedule is a schedule with its state, as it is when its pending orders are carried out. Times are in UTC.
type Schedule struct {
	Name       string
	Definition ScheduleDefinition

	Next   time.Time      // its next time; zero: it has none, or is paused
	Paused *SchedulePause // nil: it is not paused
	Last   *ScheduleFire  // the task that it has added last; nil: none yet

	Fires      uint64 // how many tasks it has added
	Missed     uint64 // times that were missed and not caught up with
	Overlapped uint64 // times that were left out because of an earlier task

	Waiting []time.Time    // times with tasks that wait for the end of an earlier one, the oldest first; not in lists
	Running []ScheduleFire // fires with tasks that had not ended at its last run; none with [OverlapAllow]; not in lists

	Orders  uint32  // requests that were accepted and are not carried out yet
	TaskID  task.ID // of the task that is the schedule
	Error   string  // why it cannot run; empty if it can
	Attempt uint32  // how many attempts to run it have failed since it last ran
	Version uint64  // grows with each new definition, see [NamedSchedule]
}

// SchedulePause is a pause of a schedule.
type SchedulePause struct {
	Since  time.Time
	Reason string
}

// ScheduleFire is a task that a schedule has added.
type ScheduleFire struct {
	Time   time.Time // of the calendar, or when it was triggered
	TaskID task.ID
}

// ScheduleTime is one fire time of a schedule.
type ScheduleTime struct {
	Time  time.Time // in UTC
	Local string    // by the clock in the zone of the schedule, such as 2026-03-29T03:00:00+02:00

	// MovedFrom is the time of the day that the expression names, such as 2026-03-29T02:30:00, if the clock jumps over it. The
	// schedule fires at the end of the gap instead. Otherwise it is empty.
	MovedFrom string

	Repeated bool // the clock was put back, and shows the time of the day for the second time
}

// ScheduleOutcome says how [Client.ApplySchedule] has changed a schedule. A node of a newer version may have others.
type ScheduleOutcome string

// The outcomes of [Client.ApplySchedule].
const (
	ScheduleCreated   ScheduleOutcome = "created"
	ScheduleUpdated   ScheduleOutcome = "updated"
	ScheduleUnchanged ScheduleOutcome = "unchanged"
)

func (d *decoder) schedule(m *taskenginev1.Schedule) *Schedule {
	s := &Schedule{
		Name: m.GetName(), Definition: definitionOf(m.GetDefinition()), Next: timeOf(m.GetNext()),
		Fires: m.GetFires(), Missed: m.GetMissed(), Overlapped: m.GetOverlapped(),
		Waiting: all(m.GetWaiting(), timeOf), Running: all(m.GetRunning(), d.fire),
		Orders: m.GetOrders(), TaskID: d.id(m.GetTaskId()), Error: m.GetError(), Attempt: m.GetAttempt(), Version: m.GetVersion(),
	}
	if p := m.GetPaused(); p != nil {
		s.Paused = &SchedulePause{Since: timeOf(p.GetSince()), Reason: p.GetReason()}
	}
	if f := m.GetLast(); f != nil {
		s.Last = new(d.fire(f))
	}
	return s
}

func (d *decoder) fire(m *taskenginev1.ScheduleFire) ScheduleFire {
	return ScheduleFire{Time: timeOf(m.GetTime()), TaskID: d.id(m.GetTaskId())}
}

func scheduleTimeOf(m *taskenginev1.ScheduleTime) ScheduleTime {
	return ScheduleTime{Time: timeOf(m.GetTime()), Local: m.GetLocal(), MovedFrom: m.GetMovedFrom(), Repeated: m.GetRepeated()}
}

func definitionOf(m *taskenginev1.ScheduleDefinition) ScheduleDefinition {
	t, c := m.GetTask(), m.GetCatchUp()
	d := ScheduleDefinition{
		Cron: m.GetCron(), Timezone: m.GetTimezone(), Gap: ScheduleGap(m.GetGap()), Repeat: ScheduleRepeat(m.GetRepeat()),
		Every: m.GetEvery().AsDuration(), Anchor: timeOf(m.GetAnchor()), Start: timeOf(m.GetStart()), End: timeOf(m.GetEnd()),
		Jitter: m.GetJitter().AsDuration(), Overlap: ScheduleOverlap(m.GetOverlap()),
		CatchUp: ScheduleCatchUp{Policy: CatchUpPolicy(c.GetPolicy()), Max: c.GetMax(), Window: c.GetWindow().AsDuration()},
		Task:    ScheduleTask{Type: t.GetType(), Workflow: t.GetWorkflow(), Payload: t.GetPayload(), Headers: t.GetHeaders(), Expires: t.GetExpires().AsDuration()},
	}
	if t != nil && t.Priority != nil {
		d.Task.Priority = new(priorityOf(t.GetPriority()))
	}
	return d
}

func definitionMessage(d *ScheduleDefinition) *taskenginev1.ScheduleDefinition {
	m := &taskenginev1.ScheduleDefinition{
		Cron: d.Cron, Timezone: d.Timezone, Gap: string(d.Gap), Repeat: string(d.Repeat), Every: span(d.Every), Anchor: stamp(d.Anchor),
		Start: stamp(d.Start), End: stamp(d.End), Jitter: span(d.Jitter), Overlap: string(d.Overlap),
		CatchUp: &taskenginev1.ScheduleCatchUp{Policy: string(d.CatchUp.Policy), Max: d.CatchUp.Max, Window: span(d.CatchUp.Window)},
		Task:    &taskenginev1.ScheduleTask{Type: d.Task.Type, Workflow: d.Task.Workflow, Payload: d.Task.Payload, Headers: d.Task.Headers, Expires: span(d.Task.Expires)},
	}
	if p := d.Task.Priority; p != nil {
		m.Task.Priority = new(uint32(*p))
	}
	return m
}
