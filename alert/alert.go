package alert

import (
	"fmt"
	"time"
)

// Status is the state of an alert.
type Status string

// The states.
const (
	Pending  Status = "pending"  // the fact holds, and not for long enough yet
	Firing   Status = "firing"   // the fact holds
	Resolved Status = "resolved" // the fact no longer holds, and a target has not accepted that yet
)

// Key identifies an alert.
type Key struct {
	Rule    string `json:"rule"`
	Subject string `json:"subject,omitempty"`
	Node    string `json:"node,omitempty"`
}

// Alert is one rule about one subject.
type Alert struct {
	Key
	When       Kind              `json:"when"`
	Status     Status            `json:"status"`
	Since      time.Time         `json:"since"`                // when the fact began to hold
	FiredAt    time.Time         `json:"fired_at,omitzero"`    // when it began to fire
	ResolvedAt time.Time         `json:"resolved_at,omitzero"` // when it was resolved
	Grown      int               `json:"grown,omitempty"`      // number of times the fact grew after the alert fired
	GrownAt    time.Time         `json:"grown_at,omitzero"`    // when Grown last changed
	Value      float64           `json:"value"`                // when the fact held last
	More       bool              `json:"more,omitempty"`       // the value may be larger
	News       int64             `json:"news,omitempty"`       // see [Fact]
	Detail     string            `json:"detail,omitempty"`     // to be read, not parsed; it may quote any text of a task
	Notified   map[string]Notice `json:"notified,omitempty"`   // the latest accepted notification, by target
}

// Notice describes the latest notification of a firing alert to a target.
type Notice struct {
	At    time.Time `json:"at"`
	Grown int       `json:"grown,omitempty"` // the alert's, at that time
}

// Labels returns the labels of the alert, except the rule: its subject and its node.
func (a *Alert) Labels() map[string]string { return labelsOf(a.When, a.Key) }

func labelsOf(when Kind, k Key) map[string]string {
	labels := make(map[string]string, 2)
	if label := when.Label(); label != "" {
		labels[label] = k.Subject
	}
	if k.Node != "" {
		labels["node"] = k.Node
	}
	return labels
}

// Summary describes the alert in a few words. It has no line break unless the subject has one.
func (a *Alert) Summary() string {
	text := a.what()
	if a.Status == Resolved {
		return "resolved: " + text
	}
	return text
}

func (a *Alert) what() string {
	on := ""
	if a.Node != "" {
		on = " on node " + a.Node
	}
	switch a.When {
	case Errors:
		return fmt.Sprintf("%s of type %s %s in error", a.number(), a.Subject, a.are())
	case Unhandled:
		return fmt.Sprintf("no node runs type %s: %s %s ready", a.Subject, a.number(), a.are())
	case QueueAge:
		return fmt.Sprintf("a task of type %s has been ready for %v", a.Subject, (time.Duration(a.Value) * time.Second).String())
	case LimitFull:
		return fmt.Sprintf("limit %s is full%s: %.0f slots are taken", a.Subject, on, a.Value)
	case NodeDown:
		return fmt.Sprintf("node %s left without draining", a.Node)
	case StoreFailing:
		return fmt.Sprintf("node %s cannot use its store", a.Node)
	case CoordinatorFailing:
		return fmt.Sprintf("node %s cannot prove to its coordinator that it is alive", a.Node)
	case HandlerDown:
		return fmt.Sprintf("handler %s takes no tasks%s", a.Subject, on)
	case CrashLoop:
		return fmt.Sprintf("handler %s crashed %.0f times in ten minutes%s", a.Subject, a.Value, on)
	case ScheduleOverdue:
		return fmt.Sprintf("schedule %s has not run for %v although its time has come", a.Subject, (time.Duration(a.Value) * time.Second).String())
	case KeyMissing:
		return fmt.Sprintf("the key %q is missing%s: %s %s for it", a.Subject, on, a.number(), map[bool]string{true: "waits", false: "wait"}[a.Value == 1])
	case SourceLag:
		return fmt.Sprintf("source %s is %.0f offsets behind%s", a.Subject, a.Value, on)
	case SourceFailing:
		return fmt.Sprintf("source %s does not read all of its topics%s", a.Subject, on)
	case SourceLost:
		return fmt.Sprintf("source %s has lost %.0f offsets within a day%s", a.Subject, a.Value, on)
	case PlatformLate:
		return fmt.Sprintf("platform %s has a slice that is not done and was due %v ago", a.Subject, (time.Duration(a.Value) * time.Second).String())
	case PlatformFailing:
		return fmt.Sprintf("slices of platform %s have failed, or it makes none", a.Subject)
	case DiskFull:
		return fmt.Sprintf("the disk of %s is %.0f %% full%s", a.Subject, a.Value, on)
	}
	return fmt.Sprintf("rule %s about %s%s", a.Rule, a.Subject, on)
}

// number returns the value as a phrase, such as "3 tasks".
func (a *Alert) number() string {
	text := fmt.Sprintf("%.0f", a.Value)
	switch {
	case a.More:
		return text + " or more tasks"
	case a.Value == 1:
		return "1 task"
	}
	return text + " tasks"
}

func (a *Alert) are() string {
	if a.Value == 1 && !a.More {
		return "is"
	}
	return "are"
}
