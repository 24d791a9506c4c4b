package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/terminal"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/task"
)

// verdictJSON returns the line of -o json, described in docs/cli.md.
func verdictJSON(name string, v task.Verdict) jsonObject {
	o := jsonObject{{"verdict", name}}
	o.setBytes("result", v.Result)
	if v.Error != "" {
		o.set("error", v.Error)
	}
	if v.Class != "" {
		o.set("class", v.Class)
	}
	if v.InDoubt {
		o.set("in_doubt", true)
	}
	isDone := v.Outcome == task.Completed || v.Ended
	if !isDone && v.Delay >= 0 && (v.Outcome == task.Snoozed || v.Outcome == task.Errored) {
		o.set("delay_ms", v.Delay.Milliseconds())
	}
	o.setTime("at", v.Again)
	if v.Await != nil {
		o.set("awaits", v.Await)
	}
	if len(v.Children) > 0 {
		o.set("awaits_children", listJSON(v.Children, func(w *task.ChildrenWait) jsonObject {
			return jsonObject{{"name", w.Name}, {"count", w.Count}, {"or_failed", w.OrFailed}}
		}))
	}
	if v.Rerun != nil {
		o.setRerun(v.Rerun)
	}
	return o
}

// setRerun adds the state of the next run, and everything that is stored with the end of the attempt.
func (o *jsonObject) setRerun(r *task.Rerun) {
	if r.Payload != nil {
		o.setBytes("payload", *r.Payload)
	}
	if r.Checkpoint != nil {
		o.setBytes("checkpoint", *r.Checkpoint)
	}
	if len(r.Tasks) > 0 {
		o.set("tasks", listJSON(r.Tasks, requestJSON))
	}
	if len(r.Children) > 0 {
		o.set("children", listJSON(r.Children, func(c *task.ChildRequests) jsonObject {
			return jsonObject{{"name", c.Name}, {"tasks", listJSON(c.Requests, requestJSON)}}
		}))
	}
	if len(r.Signals) > 0 {
		o.set("signals", listJSON(r.Signals, signalJSON))
	}
	if len(r.Documents) > 0 {
		o.set("documents", listJSON(r.Documents, documentJSON))
	}
}

func listJSON[T any](all []T, convert func(*T) jsonObject) []any {
	list := make([]any, len(all))
	for i := range all {
		list[i] = convert(&all[i])
	}
	return list
}

// setID adds an id, unless there is none.
func (o *jsonObject) setID(name string, id task.ID) {
	if !id.IsZero() {
		o.set(name, id.String())
	}
}

// setText adds a text, unless it is empty.
func (o *jsonObject) setText(name, text string) {
	if text != "" {
		o.set(name, text)
	}
}

// setTime adds a time, unless there is none.
func (o *jsonObject) setTime(name string, at time.Time) {
	if !at.IsZero() {
		o.set(name, at)
	}
}

// requestJSON describes a task that is added, with the fields of tasks.
func requestJSON(r *task.Request) jsonObject {
	o := jsonObject{{"type", r.Type}}
	o.setID("id", r.ID)
	o.setText("key", r.Key)
	o.setText("ordering_key", r.OrderingKey)
	if r.Priority != nil {
		o.set("priority", uint32(*r.Priority))
	}
	o.setTime("at", r.At)
	o.setTime("expires_at", r.ExpiresAt)
	if len(r.After) > 0 {
		ids := make([]any, len(r.After))
		for i, id := range r.After {
			ids[i] = id.String()
		}
		o.set("after", ids)
		o.set("after_any", r.AfterAny)
	}
	if len(r.Headers) > 0 {
		o.set("headers", r.Headers)
	}
	o.setBytes("payload", r.Payload)
	return o
}

func signalJSON(s *task.SignalRequest) jsonObject {
	o := jsonObject{{"name", s.Name}}
	o.setID("to", s.To)
	o.setText("type", s.Type)
	o.setText("key", s.Key)
	o.setText("ordering_key", s.OrderingKey)
	o.setID("id", s.ID)
	o.setBytes("data", s.Data)
	o.set("keep", s.Keep)
	return o
}

func documentJSON(d *task.DocumentWrite) jsonObject {
	o := jsonObject{{"key", d.Key}}
	o.setBytes("data", d.Data)
	o.set("delete", d.Delete)
	if d.Replaces != nil {
		o.set("replaces", *d.Replaces)
	}
	o.setTime("expires_at", d.ExpiresAt)
	return o
}

// showVerdict shows the verdict on an attempt. It returns an error unless the task is done, or the handler has ended the
// attempt itself.
func (a *app) showVerdict(v task.Verdict, took time.Duration) error {
	name, meaning := verdictOf(v)
	done := v.Outcome == task.Completed || v.Ended
	if v.Ended {
		v.Error, v.InDoubt = "", false
	}
	if a.json() {
		if err := a.printJSON(verdictJSON(name, v)); err != nil {
			return err
		}
	} else if done {
		if err := a.showResult(v.Result); err != nil {
			return err
		}
	}
	if v.Class != "" {
		meaning += fmt.Sprintf(", class %q", v.Class)
	}
	if v.InDoubt {
		meaning += ", not retried if the type's delivery is at_most_once"
	}
	if done {
		a.note("%s: %s, after %s", name, meaning, units.Span(took))
		a.noteRerun(v.Rerun)
		return nil
	}
	if v.Error != "" {
		meaning += ": " + cleanLines(v.Error)
	}
	return exit.Errorf(exit.Failure, "%s: %s", name, meaning)
}

// noteRerun prints the payload and checkpoint of the next run, and everything that is stored with the end of the attempt.
func (a *app) noteRerun(r *task.Rerun) {
	if r == nil {
		return
	}
	if r.Payload != nil {
		a.note("with the payload: %s", brief(*r.Payload))
	}
	if r.Checkpoint != nil {
		a.note("with the checkpoint: %s", brief(*r.Checkpoint))
	}
	for i := range r.Tasks {
		a.note("with the task of type %s", requestWords(&r.Tasks[i]))
	}
	for _, set := range r.Children {
		for i := range set.Requests {
			a.note("with the child %.80q %d of type %s", set.Name, i, requestWords(&set.Requests[i]))
		}
	}
	for i := range r.Signals {
		s := &r.Signals[i]
		to := "the task " + s.To.String()
		if s.To.IsZero() {
			to = fmt.Sprintf("the task of type %.80q with the key %.80q", s.Type, s.Key)
		}
		a.note("with the signal %.80q to %s: %s", s.Name, to, brief(s.Data))
	}
	for i := range r.Documents {
		if d := &r.Documents[i]; d.Delete {
			a.note("without the document %.80q", d.Key)
		} else {
			a.note("with the document %.80q: %s", d.Key, brief(d.Data))
		}
	}
}

// brief shows how long data are and how they begin.
func brief(data []byte) string { return fmt.Sprintf("%d bytes, %.60q", len(data), data) }

// requestWords describes a task that is added.
func requestWords(r *task.Request) string {
	words := fmt.Sprintf("%.80q", r.Type)
	if r.Key != "" {
		words += fmt.Sprintf(" with the key %.80q", r.Key)
	}
	if !r.At.IsZero() {
		words += " at " + r.At.Format(time.RFC3339)
	}
	if len(r.After) > 0 {
		words += fmt.Sprintf(" after %d tasks", len(r.After))
	}
	return words + ": " + brief(r.Payload)
}

// showResult writes a result, as it is unless a terminal would obey it.
func (a *app) showResult(result []byte) error {
	if a.outTTY && len(result) > 0 {
		_, err := fmt.Fprintln(a.stdout, cleanLines(string(result)))
		return err
	}
	_, err := a.stdout.Write(result)
	return err
}

// cleanLines is clean for text of several lines, such as a stack.
func cleanLines(s string) string { return terminal.Lines(s) }

// verdictOf returns the name of a verdict and the reaction of a node.
func verdictOf(v task.Verdict) (name, meaning string) {
	if v.Ended {
		return "ended", "the handler has ended the attempt itself, which a node would look up in the database"
	}
	switch v.Outcome {
	case task.Completed:
		switch {
		case v.Await != nil:
			return "wait", waitWords(&v)
		case v.Again.IsZero():
			return "done", "the task is done"
		}
		return "again", "the task is done for now, and due again at " + v.Again.Format(time.RFC3339)
	case task.Snoozed:
		return "snooze", "the task will be called again in " + units.Span(v.Delay)
	case task.Crashed:
		return "crashed", "the program's process died"
	case task.HandedBack:
		return "refused", "the task was not begun"
	case task.Interrupted:
		return "interrupted", "the attempt was cut off"
	}
	switch {
	case v.GiveUp:
		return "permanent", "the task failed for good"
	case v.Delay >= 0 && v.AtLeast:
		return "retryable", "the attempt failed, the next one follows in " + units.Span(v.Delay) + ", or as the type's policy says if that is later"
	case v.Delay >= 0:
		return "retryable", "the attempt failed, the next one follows in " + units.Span(v.Delay)
	}
	return "retryable", "the attempt failed, the next one follows as the type's policy says"
}

// waitWords describes the wait of a task for signals or children.
func waitWords(v *task.Verdict) string {
	var things []string
	for _, name := range v.Await {
		if name != task.AwaitsChildren {
			things = append(things, fmt.Sprintf("the signal %.80q", name))
		}
	}
	for _, w := range v.Children {
		count := "all"
		if w.Count > 0 {
			count = fmt.Sprint(w.Count)
		}
		one := fmt.Sprintf("the end of %s children %.80q", count, w.Name)
		if w.OrFailed {
			one += ", or the failure of one"
		}
		things = append(things, one)
	}
	until := ""
	if !v.Again.IsZero() {
		until = ", until " + v.Again.Format(time.RFC3339)
	}
	return "the task waits for " + strings.Join(things, ", or for ") + until
}
