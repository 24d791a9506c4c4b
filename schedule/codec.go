package schedule

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

// stored is a [Definition] as it is stored. Durations are texts, and times are in UTC, so that equal definitions are stored alike.
type stored struct {
	Cron     string          `json:"cron,omitempty"`
	TimeZone string          `json:"timezone,omitempty"`
	Gap      calendar.Gap    `json:"gap"`
	Repeat   calendar.Repeat `json:"repeat"`
	Every    span            `json:"every,omitzero"`
	Anchor   time.Time       `json:"anchor,omitzero"`
	Start    time.Time       `json:"start,omitzero"`
	End      time.Time       `json:"end,omitzero"`
	Jitter   span            `json:"jitter,omitzero"`
	CatchUp  storedCatchUp   `json:"catch_up"`
	Overlap  Overlap         `json:"overlap"`
	Task     storedTemplate  `json:"task"`
}

type storedCatchUp struct {
	Policy Policy `json:"policy"`
	Max    int    `json:"max,omitempty"`
	Window span   `json:"window,omitzero"`
}

type storedTemplate struct {
	Type     string            `json:"type,omitempty"`
	Workflow string            `json:"workflow,omitempty"`
	Payload  string            `json:"payload,omitempty"`
	Priority *uint8            `json:"priority,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Expires  span              `json:"expires,omitzero"`
}

// span is a duration that is stored as text, such as 1h30m0s.
type span time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (d Definition) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{
		Cron: d.Cron, TimeZone: d.TimeZone, Gap: d.Gap, Repeat: d.Repeat, Every: span(d.Every), Anchor: d.Anchor.UTC(),
		Start: d.Start.UTC(), End: d.End.UTC(), Jitter: span(d.Jitter), Overlap: d.Overlap,
		CatchUp: storedCatchUp{d.CatchUp.Policy, d.CatchUp.Max, span(d.CatchUp.Window)},
		Task:    storedTemplate{d.Task.Type, d.Task.Workflow, d.Task.Payload, d.Task.Priority, d.Task.Headers, span(d.Task.Expires)},
	})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Definition) UnmarshalJSON(text []byte) error {
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	*d = Definition{
		Cron: s.Cron, TimeZone: s.TimeZone, Gap: s.Gap, Repeat: s.Repeat, Every: time.Duration(s.Every), Anchor: s.Anchor,
		Start: s.Start, End: s.End, Jitter: time.Duration(s.Jitter), Overlap: s.Overlap,
		CatchUp: CatchUp{s.CatchUp.Policy, s.CatchUp.Max, time.Duration(s.CatchUp.Window)},
		Task:    Template{s.Task.Type, s.Task.Workflow, s.Task.Payload, s.Task.Priority, s.Task.Headers, time.Duration(s.Task.Expires)},
	}
	return nil
}

// Named is the payload of a schedule.
type Named struct {
	Name       string     `json:"name"`
	Definition Definition `json:"definition"`
}

// Decode reads a schedule from the payload and the checkpoint of its task.
func Decode(payload, checkpoint []byte) (r Named, s State, err error) {
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, s, fmt.Errorf("read the definition of the schedule: %w", err)
	}
	if len(checkpoint) == 0 {
		return r, s, nil
	}
	if err := json.Unmarshal(checkpoint, &s); err != nil {
		return r, s, fmt.Errorf("read the state of the schedule: %w", err)
	}
	return r, s, nil
}

// Encode returns the payload of a schedule.
func (n Named) Encode() []byte { return encode(n) }

// Encode returns the checkpoint of a schedule.
func (s State) Encode() []byte { return encode(s) }

// encode writes a part of a schedule. Nothing in a schedule can fail to be written.
func encode(part any) []byte {
	text, err := json.Marshal(part)
	if err != nil {
		panic(fmt.Sprintf("write a schedule: %v", err))
	}
	return text
}
