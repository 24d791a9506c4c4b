package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// The subcommands of task share this output.

var (
	taskHead = []string{"ID", "STATE", "TYPE", "KEY", "ORDERING KEY", "PRIORITY", "ATTEMPT", "VERSION", "NODE", "CREATED", "AGE", "NEXT", "ERROR"}
	taskWide = []string{"ORDERING KEY", "PRIORITY", "ATTEMPT", "VERSION", "NODE", "CREATED"}
)

// nextOf shows when a task that waits goes on.
func (a *app) nextOf(t *taskenginev1.Task, now time.Time) string {
	if t.GetState() != "waiting" {
		return ""
	}
	return a.moment(t.GetNextEventAt(), now)
}

func (a *app) taskRow(t *taskenginev1.Task, now time.Time) []string {
	return []string{
		t.GetId(), t.GetState(), t.GetType(), t.GetKey(), t.GetOrderingKey(), fmt.Sprint(t.GetPriority()), fmt.Sprint(t.GetAttempt()), fmt.Sprint(t.GetVersion()),
		t.GetNode(), when(t.GetCreatedAt()), briefAge(t.GetCreatedAt(), now), a.nextOf(t, now), t.GetError(),
	}
}

// showTasks writes tasks as rows, or each as a line of JSON.
func (a *app) showTasks(ts ...*taskenginev1.Task) error {
	if a.json() {
		return printMessages(a, ts)
	}
	now := time.Now()
	rows := make([][]string, len(ts))
	for i, t := range ts {
		rows[i] = a.taskRow(t, now)
	}
	return a.printSheets(sheet{head: taskHead, rows: rows, wide: taskWide})
}

// showTask writes everything about one task. priorityText returns the priority of a task, and the
// inherited one if it runs with that.
func priorityText(t *taskenginev1.Task) string {
	if t.InheritedPriority == nil {
		return fmt.Sprint(t.GetPriority())
	}
	return fmt.Sprintf("%d; it runs with %d, that of a task behind it", t.GetPriority(), t.GetInheritedPriority())
}

func (a *app) showTask(t *taskenginev1.Task) error {
	if a.json() {
		return a.showTasks(t)
	}
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-14s %s\n", name, clean(value))
		}
	}
	field("id", t.GetId())
	field("type", t.GetType())
	fmt.Fprintf(&b, "%-14s %s\n", "state", a.coloured(t.GetState(), clean(t.GetState())))
	field("version", fmt.Sprint(t.GetVersion()))
	field("attempt", fmt.Sprint(t.GetAttempt()))
	if t.GetCrashes() > 0 {
		field("crashes", fmt.Sprint(t.GetCrashes()))
	}
	field("priority", priorityText(t))
	field("key", t.GetKey())
	field("ordering key", t.GetOrderingKey())
	field("turn", t.GetTurn())
	if p := t.GetParent(); p != nil {
		field("parent", fmt.Sprintf("%s, of which it is the child %d %q", p.GetId(), p.GetIndex(), p.GetName()))
	}
	if after := t.GetAfter(); after != nil {
		field("after", afterText(after))
	}
	field("followed by", strings.Join(t.GetFollowers(), ", "))
	field("created", when(t.GetCreatedAt()))
	field("ready", when(t.GetReadyAt()))
	field("started", when(t.GetStartedAt()))
	field("node", t.GetNode())
	field("updated", when(t.GetUpdatedAt()))
	switch t.GetState() {
	case "waiting":
		if names := t.GetAwaits(); len(names) > 0 {
			field("waits for", awaited(t))
			field("waits until", when(t.GetNextEventAt()))
			break
		}
		field("next start", when(t.GetNextEventAt()))
	case "done", "failed", "cancelled":
		field("kept until", when(t.GetNextEventAt()))
	}
	if s := t.GetWokenSignal(); s != nil {
		field("woken by", fmt.Sprintf("the signal %s at %s: %s", s.GetName(), when(s.GetAt()), showBytes(s.GetData())))
	} else {
		field("woken by", t.GetWokenBy())
	}
	for _, s := range t.GetKeptSignals() {
		field("kept signal", fmt.Sprintf("%s at %s: %s", s.GetName(), when(s.GetAt()), showBytes(s.GetData())))
	}
	for _, s := range t.GetChildren() {
		field("children", childrenText(s))
	}
	field("expires", when(t.GetExpiresAt()))
	for _, k := range slices.Sorted(maps.Keys(t.GetHeaders())) {
		field("header", k+"="+t.GetHeaders()[k])
	}
	field("payload", showBytes(t.GetPayload()))
	field("result", showResult(t))
	field("error", t.GetError())
	field("progress", showProgress(t.GetProgress()))
	if n := len(t.GetCheckpoint()); n > 0 {
		field("checkpoint", fmt.Sprintf("%d bytes for the next attempt", n))
	}
	for _, h := range t.GetHistory() {
		if h.GetOutcome() == task.Erased.String() {
			field("erased", doneBy(h))
			continue
		}
		field("history", attemptText(h))
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// attemptText words an entry of a history.
func attemptText(h *taskenginev1.Attempt) string {
	if h.GetOutcome() == task.Edited.String() {
		return fmt.Sprintf("edited %s: %s", doneBy(h), h.GetError())
	}
	took := h.GetEndedAt().AsTime().Sub(h.GetStartedAt().AsTime())
	on := ""
	if h.GetNode() != "" {
		on = " on " + h.GetNode()
	}
	return fmt.Sprintf("attempt %d %s%s at %s after %s: %s", h.GetNumber(), h.GetOutcome(), on, when(h.GetEndedAt()), units.Span(took), h.GetError())
}

// doneBy words when and by whom a task was changed.
func doneBy(h *taskenginev1.Attempt) string {
	text := "at " + when(h.GetEndedAt())
	if h.GetBy() != "" {
		text += " by " + h.GetBy()
	}
	if h.GetJob() != "" {
		text += ", by the bulk job " + h.GetJob()
	}
	return text
}

// awaited words what a task waits for.
func awaited(t *taskenginev1.Task) string {
	if after := t.GetAfter(); slices.Contains(t.GetAwaits(), task.AfterSet) {
		left := len(after.GetTasks()) - int(after.GetDone()+after.GetFailed()+after.GetCancelled())
		if after.GetAny() {
			return fmt.Sprintf("%d of %d tasks to end, after which it runs", left, len(after.GetTasks()))
		}
		return fmt.Sprintf("%d of %d tasks to be done, after which it runs", left, len(after.GetTasks()))
	}
	if !slices.Contains(t.GetAwaits(), task.AwaitsChildren) {
		return "the signal " + strings.Join(t.GetAwaits(), " or ")
	}
	var waits []string
	for _, s := range t.GetChildren() {
		if s.GetOpen() {
			waits = append(waits, fmt.Sprintf("more children %q to be added, of which there are %d", s.GetName(), s.GetAdded()))
		}
		if s.GetAwaits() == 0 {
			continue
		}
		ended := s.GetDone() + s.GetFailed() + s.GetCancelled()
		wait := fmt.Sprintf("%d more of %d children %q", s.GetAwaits()-min(ended, s.GetAwaits()), s.GetAdded(), s.GetName())
		if s.GetOrFailed() {
			wait += ", or one that fails or is cancelled"
		}
		waits = append(waits, wait)
	}
	if waits == nil {
		return "children"
	}
	return strings.Join(waits, ", or ")
}

// afterText words after which tasks one runs, and how many of them have ended.
func afterText(a *taskenginev1.After) string {
	return fmt.Sprintf("%s: %d done, %d failed, %d cancelled, %d have not ended", strings.Join(a.GetTasks(), ", "), a.GetDone(), a.GetFailed(), a.GetCancelled(),
		len(a.GetTasks())-int(a.GetDone()+a.GetFailed()+a.GetCancelled()))
}

// childrenText words how many children of one name have ended, and how.
func childrenText(s *taskenginev1.ChildSet) string {
	return fmt.Sprintf("%d %q: %d done, %d failed, %d cancelled, %d have not ended", s.GetAdded(), s.GetName(), s.GetDone(), s.GetFailed(), s.GetCancelled(),
		int64(s.GetAdded())-int64(s.GetDone())-int64(s.GetFailed())-int64(s.GetCancelled()))
}

// showResult shows the result of a task, or why it is not there.
func showResult(t *taskenginev1.Task) string {
	if t.GetTombstone() {
		return "removed, as the payload: the task is a tombstone, which only remembers its key"
	}
	return showBytes(t.GetResult())
}

// showProgress words how far a task is, such as "30 of 100 (30 %), pages, 2s ago".
func showProgress(p *taskenginev1.Progress) string {
	if p == nil {
		return ""
	}
	out := fmt.Sprint(p.GetDone())
	if total := p.GetTotal(); total > 0 {
		out += fmt.Sprintf(" of %d (%.0f %%)", total, 100*float64(p.GetDone())/float64(total))
	}
	if p.GetMessage() != "" {
		out += ", " + p.GetMessage()
	}
	return out + ", at " + when(p.GetAt())
}

// showBytes shows text as text, and says of anything else that it is not.
func showBytes(b []byte) string {
	const most = 1000
	asJSON, asBase64 := bytesToJSON(b)
	switch {
	case asJSON != nil:
		return short(string(asJSON), most)
	case len(b) > 0 && utf8.Valid(b):
		return short(string(b), most)
	case asBase64 != "":
		return fmt.Sprintf("%d bytes that are no text; -o json shows them", len(b))
	}
	return ""
}
