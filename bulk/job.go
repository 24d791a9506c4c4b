package bulk

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/task"
)

// Type is the type of the tasks that are jobs.
const Type = task.ReservedTypes + "bulk"

// ErrInvalid says that a job cannot be.
var ErrInvalid = errors.New("invalid bulk job")

// Verb is what a job does with each task.
type Verb string

// The verbs.
const (
	Resume     Verb = "resume"
	Cancel     Verb = "cancel"
	Fail       Verb = "fail"
	Reschedule Verb = "reschedule"
	Set        Verb = "set"
	Delete     Verb = "delete"
	Erase      Verb = "erase"
	Undo       Verb = "undo" // of another job
)

// Verbs returns all verbs.
func Verbs() []Verb { return []Verb{Resume, Cancel, Fail, Reschedule, Set, Delete, Erase, Undo} }

// Bounds of jobs.
const (
	MaxReason  = 1000
	MaxBy      = 200
	MaxName    = 64
	MaxHistory = 50 // the newest orders of people
	MaxRate    = 1e6
)

// Job is the payload of a job.
type Job struct {
	Name   string    `json:"name"`
	Verb   Verb      `json:"verb"`
	Where  string    `json:"where"`           // a filter as it is written: it selects the same tasks at any time
	Types  []string  `json:"types,omitempty"` // of the tasks, if the caller may deal with these only
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"` // the time for Reschedule, or for Set

	Priority *uint8             `json:"priority,omitempty"` // for Set
	Payload  *[]byte            `json:"payload,omitempty"`  // likewise
	Headers  map[string]*string `json:"headers,omitempty"`  // likewise; nil removes a header

	Of        string `json:"of,omitempty"`         // for Undo: the job that is undone
	OfChanged int64  `json:"of_changed,omitempty"` // likewise: how many tasks that has changed

	Rate float64 `json:"rate,omitempty"` // tasks in a second; 0 is as fast as possible

	Ordered  time.Time `json:"ordered"`  // when the job was ordered
	Total    int64     `json:"total"`    // how many tasks the filter selected then
	Complete bool      `json:"complete"` // Total has all of them; if not, there were more

	Paused  bool    `json:"paused,omitempty"`
	Stopped bool    `json:"stopped,omitempty"`
	History []Event `json:"history,omitempty"` // orders by people, the oldest first
}

// Event is an order by a person.
type Event struct {
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
	What   string    `json:"what"`
	Reason string    `json:"reason,omitempty"`
}

// Note appends an event to the history.
func (j *Job) Note(e Event) {
	j.History = append(slices.Clone(j.History), e)
	j.History = j.History[max(0, len(j.History)-MaxHistory):]
}

// statesOf returns the states of the tasks that a verb is for, if a filter names none.
func statesOf(v Verb) []task.State {
	switch v {
	case Cancel:
		return []task.State{task.Waiting, task.Submitted, task.Processing, task.Error}
	case Reschedule:
		return []task.State{task.Waiting, task.Error}
	case Set:
		return []task.State{task.Waiting, task.Submitted, task.Error}
	case Delete:
		return []task.State{task.Done, task.Failed, task.Cancelled}
	case Erase:
		return []task.State{task.Done, task.Error, task.Failed, task.Cancelled}
	case Undo:
		return nil
	default:
		return []task.State{task.Error}
	}
}

// Prepare checks a job and completes its filter: by the states that the verb is for, if the filter names none, and by the tasks that were
// added until now. Where has what a person has written.
func (j *Job) Prepare(now time.Time) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
	}
	j.Ordered = task.Stamp(now)
	switch {
	case !slices.Contains(Verbs(), j.Verb):
		return wrong("there is no verb %.40q: use one of %s", j.Verb, strings.Join(texts(Verbs()), ", "))
	case len(j.Reason) > MaxReason:
		return wrong("the reason has %d bytes, of %d allowed", len(j.Reason), MaxReason)
	case len(j.By) > MaxBy:
		return wrong("the name of who orders it has %d bytes, of %d allowed", len(j.By), MaxBy)
	case j.Rate < 0 || j.Rate > MaxRate || math.IsNaN(j.Rate) || j.Rate > 0 && j.Rate < 1e-4:
		return wrong("the rate is %g tasks in a second, and must be 0.0001 to %g, or 0 for no limit", j.Rate, MaxRate)
	case j.Verb == Reschedule && j.At.IsZero(), j.Verb != Reschedule && j.Verb != Set && !j.At.IsZero():
		return wrong("a time is for %s, which needs one, and for %s", Reschedule, Set)
	case j.Verb != Set && j.hasValues():
		return wrong("a priority, a payload and headers are for %s", Set)
	case !j.At.IsZero() && (j.At.Unix() < 0 || j.At.UTC().Year() > 9999):
		return wrong("times must lie between the years 1970 and 9999")
	case (j.Verb == Undo) != (j.Of != ""):
		return wrong("%s needs the name of a job, and no other verb has one", Undo)
	case j.Reason != "" && j.Verb != Cancel && j.Verb != Fail:
		return wrong("a reason is kept by tasks that are cancelled or fail, and not by %s", j.Verb)
	}
	if err := CheckName(j.Name); err != nil {
		return wrong("%w", err)
	}
	f, err := filter.Parse(j.Where, now)
	if err != nil {
		return fmt.Errorf("%w: where: %w", ErrInvalid, err)
	}
	if f.String() == "" && len(j.Types) == 0 {
		return wrong("the filter is empty: name at least one term, such as state=error; type=* selects all types")
	}
	bounds, ok := f.Bounds()
	if ok && bounds.States == nil && j.Verb != Undo {
		f = f.And(filter.Of(statesOf(j.Verb), nil, ""))
	}
	f = f.And(filter.Of(nil, j.Types, ""))
	added, err := filter.Parse("created<="+j.Ordered.Format(time.RFC3339Nano), now)
	if err != nil {
		return wrong("the time %v: %w", j.Ordered, err)
	}
	j.Where = f.And(added).String()
	if _, err := j.Filter(); err != nil {
		return err
	}
	return nil
}

func (j *Job) hasValues() bool { return j.Priority != nil || j.Payload != nil || len(j.Headers) > 0 }

// Filter returns the filter of a job that was prepared.
func (j *Job) Filter() (filter.Filter, error) {
	f, err := filter.Parse(j.Where, j.Ordered)
	if err != nil {
		return f, fmt.Errorf("%w: where: %w", ErrInvalid, err)
	}
	return f, nil
}

// Logged returns the filter of a job as logs have it: without the values of tasks that the job erases.
func (j *Job) Logged() string {
	if j.Verb != Erase {
		return j.Where
	}
	f, err := j.Filter()
	if err != nil { // it lacks them already
		return j.Where
	}
	return f.WithoutContent()
}

// Selects reports whether a job is about a task that its filter selects. It is not about parts of the engine, such as schedules, erases no task twice, and
// undoes changes of one job.
func (j *Job) Selects(t *task.Task) bool {
	switch {
	case task.IsReservedType(t.Type):
		return false
	case j.Verb == Erase:
		return t.Erased() == nil
	case j.Verb == Undo:
		return slices.ContainsFunc(t.History, func(a task.Attempt) bool { return a.IsBy(j.Of) })
	}
	return true
}

// CheckName returns why a job cannot have a name, or nil.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("the name has %d characters, of 1 to %d", len(name), MaxName)
	}
	for _, r := range name {
		if r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return fmt.Errorf("the name has the character %q: use letters, digits, ., - and _", r)
		}
	}
	return nil
}

func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = string(one)
	}
	return out
}

// IDOf returns the id of the task that is the job with a name. It is in the shard of the key of the task.
func IDOf(name string) task.ID {
	shard, _ := task.BoundShard(Type, name, "")
	return task.ReservedIDIn(shard, Type, name)
}

// Encode returns the payload.
func (j *Job) Encode() ([]byte, error) {
	data, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("write the bulk job %s: %w", j.Name, err)
	}
	return data, nil
}

// Decode reads the payload of a job.
func Decode(payload []byte) (j Job, err error) {
	if err := json.Unmarshal(payload, &j); err != nil {
		return j, fmt.Errorf("read the bulk job: %w", err)
	}
	return j, nil
}
