package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/schedule/calendar"
	"github.com/taskengine/taskengine/task"
)

// Type is the type of the tasks that are schedules.
const Type = "taskengine.schedule"

// Limits of definitions.
const (
	MaxName    = 200      // bytes
	MaxWaiting = 1000     // CatchUp.Max
	MaxPayload = 64 << 10 // bytes of Template.Payload
	MaxHeaders = 8 << 10  // bytes of Template.Headers, names and values
	MaxType    = 200      // bytes of Template.Type, and of Template.Workflow
)

// Definition says when a schedule fires and which task it adds. Either Cron or Every is set.
type Definition struct {
	Cron     string          // a cron expression, see package calendar
	TimeZone string          // of Cron: a name of the IANA time zone database; "" is UTC
	Gap      calendar.Gap    // of Cron: whether the schedule fires for times that a clock change skips
	Repeat   calendar.Repeat // of Cron: whether the schedule fires again at times that a clock change repeats

	Every  time.Duration // the interval of the times
	Anchor time.Time     // of Every: one of the times; zero is the beginning of 1970, UTC

	Start time.Time // the schedule does not fire before it; zero is no bound
	End   time.Time // the schedule does not fire after it; zero is no bound

	// Jitter delays the task of each fire by a part of it that depends on the schedule and the time of the fire.
	Jitter time.Duration

	CatchUp CatchUp
	Overlap Overlap
	Task    Template
}

// CatchUp says for which missed times the schedule still adds tasks. It misses times while it cannot run, for
// instance because no node is alive. The newest time counts as missed only if it is more than [OnTime] in the past.
type CatchUp struct {
	Policy Policy
	Max    int           // of All: how many tasks are added at most, the newest; 0 is 100
	Window time.Duration // times longer ago are left out; 0 is no bound
}

// OnTime is how late a fire may be decided about without being missed.
const OnTime = time.Minute

// Policy is one of the policies of CatchUp.
type Policy uint8

// The policies of CatchUp.
const (
	Latest Policy = iota // a task is added for the newest missed time
	None                 // no task is added for missed times
	All                  // a task is added for each missed time
)

// Overlap is the policy for a fire before the task of an earlier fire has ended.
type Overlap uint8

// The ways to treat overlaps.
const (
	Skip      Overlap = iota // no task is added
	Queue                    // the task is added when the earlier one has ended
	CancelOld                // the earlier task is cancelled
	Allow                    // the tasks may run at the same time
)

// Template describes the tasks that a schedule adds.
type Template struct {
	Type     string // "" if Workflow is set
	Workflow string // in place of Type: the name of a workflow in the configuration of the node that fires
	Payload  string // of the task, or the input of the workflow, as JSON; see Placeholders
	Priority *uint8 // nil for the priority of the type
	Headers  map[string]string
	Expires  time.Duration // a task that has not begun this long after its time is not run any more; 0 is no bound
}

// Headers that the task of a fire has in addition to the headers of its template.
const (
	HeaderName = "taskengine-schedule"     // the name of the schedule
	HeaderTime = "taskengine-nominal-time" // the time of the fire, as RFC 3339 in the zone of the schedule
)

// CheckName returns an error if name cannot be the name of a schedule.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("a schedule needs a name")
	case len(name) > MaxName:
		return fmt.Errorf("the name has %d bytes, of %d allowed", len(name), MaxName)
	case !utf8.ValidString(name):
		return errors.New("the name is not UTF-8 text")
	}
	for _, r := range name {
		if r <= ' ' || r == 0x7f || r == '"' || r == '\\' {
			return errors.New("the name has spaces, quotes, backslashes or characters that cannot be printed")
		}
	}
	return nil
}

// Calendar returns the calendar of a schedule with this name, or an error that describes the mistake
// in d.
func (d *Definition) Calendar(name string) (*calendar.Calendar, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	if d.Cron == "" {
		return calendar.Every(d.Every, d.Anchor)
	}
	zone, err := d.zone()
	if err != nil {
		return nil, err
	}
	return calendar.ParseCron(d.Cron, calendar.Options{Location: zone, Gap: d.Gap, Repeat: d.Repeat, Hash: name})
}

// zone returns the time zone to show the times of d in.
func (d *Definition) zone() (*time.Location, error) {
	if d.TimeZone == "" {
		return time.UTC, nil
	}
	return calendar.LoadLocation(d.TimeZone)
}

// check returns an error if d is wrong, apart from its calendar.
func (d *Definition) check() error {
	switch {
	case d.Cron == "" && d.Every == 0:
		return errors.New("either cron or every is required")
	case d.Cron != "" && d.Every != 0:
		return errors.New("cron and every exclude each other")
	case d.Cron == "" && d.TimeZone != "":
		return errors.New("timezone is for cron: intervals are the same in every zone")
	case d.Cron != "" && !d.Anchor.IsZero():
		return errors.New("anchor is for every")
	case !d.Start.IsZero() && !d.End.IsZero() && d.End.Before(d.Start):
		return errors.New("end is before start")
	case d.Jitter < 0 || d.CatchUp.Window < 0 || d.Task.Expires < 0:
		return errors.New("jitter, window and expires must not be negative")
	case !d.Start.IsZero() && d.Start.Unix() < 0, !d.End.IsZero() && d.End.Unix() < 0, d.Start.UTC().Year() > 9999, d.End.UTC().Year() > 9999:
		return errors.New("start and end must lie between the years 1970 and 9999")
	case d.CatchUp.Max < 0 || d.CatchUp.Max > MaxWaiting:
		return fmt.Errorf("max of catch_up is %d, of %d allowed", d.CatchUp.Max, MaxWaiting)
	case d.CatchUp.Policy > All:
		return fmt.Errorf("policy %d of catch_up does not exist", d.CatchUp.Policy)
	case d.Overlap > Allow:
		return fmt.Errorf("overlap %d does not exist", d.Overlap)
	}
	return d.Task.check()
}

func (t *Template) check() error {
	headers := 0
	for k, v := range t.Headers {
		if k == HeaderName || k == HeaderTime {
			return fmt.Errorf("header %s is set by the engine", k)
		}
		headers += len(k) + len(v)
	}
	switch {
	case t.Type == "" && t.Workflow == "":
		return errors.New("the type of the tasks is missing; a workflow is in place of it")
	case t.Type != "" && t.Workflow != "":
		return errors.New("type and workflow exclude each other")
	case len(t.Workflow) > MaxType || !utf8.ValidString(t.Workflow) || strings.ContainsFunc(t.Workflow, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("workflow is %.40q, and has at most %d bytes of printable UTF-8", t.Workflow, MaxType)
	case task.IsReservedType(t.Type):
		return fmt.Errorf("a schedule cannot add tasks of the type %.80q: types that begin with %s belong to the engine", t.Type, task.ReservedTypes)
	case strings.ContainsFunc(t.Type, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("type has characters that cannot be printed")
	case len(t.Type) > MaxType || !utf8.ValidString(t.Type):
		return fmt.Errorf("type has %d bytes, of %d of UTF-8 text allowed", len(t.Type), MaxType)
	case t.Priority != nil && *t.Priority > task.LowestPriority:
		return fmt.Errorf("priority is %d, of 0 (sooner) to %d (later)", *t.Priority, task.LowestPriority)
	case len(t.Payload) > MaxPayload:
		return fmt.Errorf("payload has %d bytes, of %d allowed", len(t.Payload), MaxPayload)
	case headers > MaxHeaders:
		return fmt.Errorf("headers have %d bytes, of %d allowed", headers, MaxHeaders)
	}
	if err := checkPlaceholders(t.searched()); err != nil {
		return err
	}
	if sample := t.SampleInput(); len(sample) > 0 && !json.Valid(sample) {
		return errors.New("the input of the workflow is not JSON")
	}
	return nil
}

// TaskType returns the type of the tasks.
func (t *Template) TaskType() string {
	if t.Workflow != "" {
		return task.WorkflowType
	}
	return t.Type
}

// SampleInput returns the input of Workflow as it is for some fire; nil if it has none, or if Workflow is not set.
func (t *Template) SampleInput() []byte {
	if t.Workflow == "" || t.Payload == "" {
		return nil
	}
	return []byte(fill(t.Payload, "schedule", task.ID{}, time.Unix(0, 0).UTC()))
}

// most returns how many missed times are caught up with.
func (c CatchUp) most() int {
	switch {
	case c.Policy != All:
		return 1
	case c.Max == 0:
		return 100
	}
	return c.Max
}
