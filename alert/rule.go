package alert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is the condition that a rule watches.
type Kind uint8

// The kinds. Their subjects are types of tasks, limits, handlers, paths, schedules, sources or platforms; kinds without a subject are
// about a node. A fact observed on one node has its name in [Fact].Node.
const (
	Errors             Kind = iota + 1 // tasks of a type are in error; the value is how many
	Unhandled                          // tasks of a type are ready and no node runs the type; the value is how many
	QueueAge                           // the oldest ready task of a type; the value is for how many seconds it has been ready
	LimitFull                          // a limit, or a value of one (LIMIT/VALUE), is full; the value is the number of taken slots
	NodeDown                           // a node left without draining; the value is 1
	StoreFailing                       // a node cannot use its store; the value is 1
	CoordinatorFailing                 // a node cannot prove to its coordinator that it is alive; the value is 1
	HandlerDown                        // a handler takes no tasks on a node; the value is 1
	CrashLoop                          // the processes of a handler crash on a node; the value is how often in ten minutes
	DiskFull                           // a disk of a node fills up; the value is the percentage that is used
	ScheduleOverdue                    // a schedule has not run although its time has come; the value is how late it is, in seconds
	KeyMissing                         // a node lacks a key that tasks are encrypted with; the value is how many tasks wait for it, about
	SourceLag                          // a source is behind; the value is by how many offsets
	SourceFailing                      // a source does not read all of its topics; the value is 1
	SourceLost                         // records of a source were lost within a day; the value is how many offsets
	PlatformLate                       // a slice of a platform is not done; the value is for how many seconds it has been due
	PlatformFailing                    // slices of a platform have failed, or it makes none although it should; the value is how many have failed, at least 1
)

// kindInfo has the names of a kind.
type kindInfo struct {
	name  string
	label string // of its subject
}

var kinds = [...]kindInfo{
	Errors: {"errors", "type"}, Unhandled: {"unhandled", "type"}, QueueAge: {"queue_age", "type"},
	LimitFull: {"limit_full", "limit"}, NodeDown: {"node_down", ""},
	StoreFailing: {"store_failing", ""}, CoordinatorFailing: {"coordinator_failing", ""},
	HandlerDown: {"handler_down", "handler"}, CrashLoop: {"crash_loop", "handler"}, DiskFull: {"disk_full", "path"},
	ScheduleOverdue: {"schedule_overdue", "schedule"}, KeyMissing: {"key_missing", "key"},
	SourceLag: {"source_lag", "source"}, SourceFailing: {"source_failing", "source"}, SourceLost: {"source_lost", "source"},
	PlatformLate: {"platform_late", "platform"}, PlatformFailing: {"platform_failing", "platform"},
}

// Kinds returns all kinds.
func Kinds() (all []Kind) {
	for k := Errors; int(k) < len(kinds); k++ {
		all = append(all, k)
	}
	return all
}

// String returns the name of the kind, as configurations write it; "" for none.
func (k Kind) String() string {
	if int(k) >= len(kinds) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kinds[k].name
}

// Label returns the name of the label that the subject of the kind has; "" if the node is the subject.
func (k Kind) Label() string {
	if int(k) >= len(kinds) {
		return ""
	}
	return kinds[k].label
}

// LabelNames returns the names of all labels that alerts may have, sorted.
func LabelNames() []string {
	names := []string{"node"}
	for _, k := range Kinds() {
		if label := k.Label(); label != "" {
			names = append(names, label)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// MarshalJSON writes the name of the kind.
func (k Kind) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// UnmarshalJSON reads the name of a kind. A kind that is not known is 0.
func (k *Kind) UnmarshalJSON(text []byte) error {
	var name string
	if err := json.Unmarshal(text, &name); err != nil {
		return err
	}
	*k = 0
	for _, one := range Kinds() {
		if one.String() == name {
			*k = one
		}
	}
	return nil
}

// Rule says when an alert fires, and which targets it notifies.
type Rule struct {
	Name    string
	When    Kind
	Match   []string      // patterns of subjects, or of nodes for kinds without a subject: a name, or a beginning and *; none is all
	AtLeast float64       // the value from which on the fact counts
	For     time.Duration // how long it must hold before the alert fires

	GroupWait time.Duration // how long a first notification waits for further alerts
	Interval  time.Duration // the least time between two notifications with news
	Repeat    time.Duration // after which a firing alert is sent again; 0 is never
	Targets   []string
}

// matches reports whether the rule is about a subject, or about a node if its kind has no subjects.
func (r *Rule) matches(subject, node string) bool {
	if len(r.Match) == 0 {
		return true
	}
	if r.When.Label() == "" {
		subject = node
	}
	for _, pattern := range r.Match {
		if Matches(pattern, subject) || r.When == LimitFull && Matches(pattern, limitOf(subject)) {
			return true
		}
	}
	return false
}

// limitOf returns the name of the limit of a subject of LimitFull.
func limitOf(subject string) string {
	name, _, _ := strings.Cut(subject, "/")
	return name
}

// Matches reports whether text equals the pattern or, if the pattern ends with *, has the rest of it as
// a prefix.
func Matches(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}

// Target has the limits of a target.
type Target struct {
	Name   string
	Rate   Rate
	GiveUp time.Duration // for how long a notification is tried; 0 is for ever
}

// Rate bounds how many notifications are made for a target. The zero Rate is no bound.
type Rate struct {
	Count int
	Per   time.Duration
}

// take takes one of the rate at a time. due is when the rate is unused again; take returns the next due. If
// none is left, it returns when one is.
func (r Rate) take(due, at time.Time) (next time.Time, ok bool, free time.Time) {
	if r.Count <= 0 {
		return due, true, at
	}
	step := r.Per / time.Duration(r.Count)
	if free = due.Add(step - r.Per); free.After(at) {
		return due, false, free
	}
	if due.Before(at) {
		due = at
	}
	return due.Add(step), true, at
}

// Fact is something that was observed.
type Fact struct {
	Kind    Kind
	Subject string
	Node    string  // where it was observed; "" for a fact about all nodes
	Value   float64 // see Kind
	More    bool    // the value may be larger
	News    int64   // of Errors and SourceLost: grows when another task becomes an error, or more is lost
	Detail  string  // to be read
}

// Look has the observations at one time.
type Look struct {
	At    time.Time
	Whole []Kind // facts of these kinds hold only if they are in Facts; facts of other kinds are unknown
	Facts []Fact
}

// Silence keeps alerts out of notifications until a time. The notification that an alert is resolved
// does not depend on silences.
type Silence struct {
	ID      string            `json:"id"`
	Rule    string            `json:"rule,omitempty"`   // "" is any
	Labels  map[string]string `json:"labels,omitempty"` // patterns, by label; an alert must match all
	Until   time.Time         `json:"until"`
	Comment string            `json:"comment,omitempty"`
	By      string            `json:"by,omitempty"`
	At      time.Time         `json:"at"`
}

// Covers reports whether the silence is for an alert at a time.
func (s *Silence) Covers(a *Alert, at time.Time) bool {
	if !at.Before(s.Until) || s.Rule != "" && s.Rule != a.Rule {
		return false
	}
	labels := a.Labels()
	for name, pattern := range s.Labels {
		value, ok := labels[name]
		isOfLimit := a.When == LimitFull && name == LimitFull.Label() && Matches(pattern, limitOf(value))
		if !ok || !Matches(pattern, value) && !isOfLimit {
			return false
		}
	}
	return true
}
