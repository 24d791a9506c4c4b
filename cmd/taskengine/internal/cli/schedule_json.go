package cli

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The types below are part of the contract of -o json, like json.go.

type scheduleJSON struct {
	Name       string             `json:"name"`
	TaskID     string             `json:"task_id"`
	Next       *time.Time         `json:"next,omitempty"`
	Last       *scheduleFireJSON  `json:"last,omitempty"`
	Paused     *schedulePauseJSON `json:"paused,omitempty"`
	Fires      uint64             `json:"fires"`
	Missed     uint64             `json:"missed"`
	Overlapped uint64             `json:"overlapped"`
	Running    []scheduleFireJSON `json:"running,omitempty"`
	Waiting    []*time.Time       `json:"waiting,omitempty"`
	Orders     uint32             `json:"orders,omitempty"`
	Error      string             `json:"error,omitempty"`
	Attempt    uint32             `json:"attempt,omitempty"`
	Definition definitionJSON     `json:"definition"`
}

type scheduleFireJSON struct {
	Time   *time.Time `json:"time"`
	TaskID string     `json:"task_id"`
}

type schedulePauseJSON struct {
	Since  *time.Time `json:"since"`
	Reason string     `json:"reason,omitempty"`
}

// definitionJSON has the names of the section schedules of a configuration. Durations are like 1h30m.
type definitionJSON struct {
	Cron     string            `json:"cron,omitempty"`
	Timezone string            `json:"timezone,omitempty"`
	Gap      string            `json:"gap"`
	Repeat   string            `json:"repeat"`
	Every    string            `json:"every,omitempty"`
	Anchor   *time.Time        `json:"anchor,omitempty"`
	Start    *time.Time        `json:"start,omitempty"`
	End      *time.Time        `json:"end,omitempty"`
	Jitter   string            `json:"jitter,omitempty"`
	CatchUp  catchUpJSON       `json:"catch_up"`
	Overlap  string            `json:"overlap"`
	Type     string            `json:"type"`
	Payload  string            `json:"payload,omitempty"`
	Priority *uint32           `json:"priority,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Expires  string            `json:"expires,omitempty"`
}

type catchUpJSON struct {
	Policy string `json:"policy"`
	Max    uint32 `json:"max,omitempty"`
	Window string `json:"window,omitempty"`
}

type scheduleTimeJSON struct {
	Time      *time.Time `json:"time"`
	Local     string     `json:"local"`
	MovedFrom string     `json:"moved_from,omitempty"`
	Repeated  bool       `json:"repeated,omitempty"`
}

type scheduleOutcomeJSON struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
}

type triggeredJSON struct {
	TaskID string `json:"task_id"`
}

type backfillJSON struct {
	Name   string `json:"name"`
	Tasks  uint64 `json:"tasks"`
	DryRun bool   `json:"dry_run,omitempty"`
}

func scheduleToJSON(s *taskenginev1.Schedule) scheduleJSON {
	j := scheduleJSON{
		Name: s.GetName(), TaskID: s.GetTaskId(), Next: timeToJSON(s.GetNext()), Fires: s.GetFires(), Missed: s.GetMissed(), Overlapped: s.GetOverlapped(),
		Orders: s.GetOrders(), Error: s.GetError(), Attempt: s.GetAttempt(), Definition: definitionToJSON(s.GetDefinition()),
	}
	if last := s.GetLast(); last != nil {
		j.Last = &scheduleFireJSON{timeToJSON(last.GetTime()), last.GetTaskId()}
	}
	if p := s.GetPaused(); p != nil {
		j.Paused = &schedulePauseJSON{timeToJSON(p.GetSince()), p.GetReason()}
	}
	for _, f := range s.GetRunning() {
		j.Running = append(j.Running, scheduleFireJSON{timeToJSON(f.GetTime()), f.GetTaskId()})
	}
	for _, t := range s.GetWaiting() {
		j.Waiting = append(j.Waiting, timeToJSON(t))
	}
	return j
}

func definitionToJSON(d *taskenginev1.ScheduleDefinition) definitionJSON {
	c, t := d.GetCatchUp(), cmp.Or(d.GetTask(), new(taskenginev1.ScheduleTask))
	return definitionJSON{
		Cron: d.GetCron(), Timezone: d.GetTimezone(), Gap: d.GetGap(), Repeat: d.GetRepeat(), Every: durationToJSON(d.GetEvery()), Anchor: timeToJSON(d.GetAnchor()),
		Start: timeToJSON(d.GetStart()), End: timeToJSON(d.GetEnd()), Jitter: durationToJSON(d.GetJitter()),
		CatchUp: catchUpJSON{c.GetPolicy(), c.GetMax(), durationToJSON(c.GetWindow())}, Overlap: d.GetOverlap(),
		Type: t.GetType(), Payload: t.GetPayload(), Priority: t.Priority, Headers: t.GetHeaders(), Expires: durationToJSON(t.GetExpires()),
	}
}

// durationToJSON formats a duration; nil is "".
func durationToJSON(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return durationText(d)
}
