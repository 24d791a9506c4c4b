package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// isBehind reports whether the order of its ordering key keeps a task from running.
func isBehind(t *task.Task, now time.Time) bool {
	return t.Turn == task.Behind && (t.State == task.Submitted || t.State == task.Waiting && !t.NextEventAt.IsZero() && !t.NextEventAt.After(now))
}

// whyBehind returns why a task does not run that is behind another: that one, and a pause of its type.
func (e *Engine) whyBehind(ctx context.Context, t *task.Task) []Reason {
	rs := []Reason{e.behind(ctx, t)}
	e.decide(func(c *core.Core, now time.Time) {
		if r, ok := e.unwritten(t); ok {
			rs = []Reason{r}
			return
		}
		rs = append(rs, waits(now, t, c.Why(now, t), e.attemptsOf(t))...)
	})
	return rs
}

// behind returns why a task does not run that is behind the head of its ordering key.
func (e *Engine) behind(ctx context.Context, t *task.Task) Reason {
	rows, err := e.Key(ctx, t.OrderingKey, nil, 1)
	if err != nil {
		return Reason{Code: CodeBehind, Text: "another task of its ordering key is before it"}
	}
	if h := rows.Head; h != nil {
		return behindHead(h)
	}
	if len(rows.Behind) > 0 && rows.Behind[0].ID != t.ID && rows.Behind[0].State == task.Waiting {
		return behindWaiting(rows.Behind[0])
	}
	return Reason{Code: CodeBehind, Text: "its ordering key has no head at present, and gets one in a moment"}
}

// behindHead describes the state of the head of an ordering key.
func behindHead(h *task.Task) Reason {
	r := Reason{Code: CodeBehind, Head: h.ID, HeadState: h.State}
	r.Text = fmt.Sprintf("task %v of type %s has the same ordering key and is before it: ", h.ID, h.Type)
	since := h.UpdatedAt.Format(time.RFC3339)
	switch h.State {
	case task.Processing:
		on := ""
		if h.Node != "" {
			on = " on node " + h.Node
		}
		r.Text += fmt.Sprintf("it runs%s since %s", on, h.StartedAt.Format(time.RFC3339))
	case task.Waiting:
		r.Until = h.NextEventAt
		r.Text += "it waits for " + attemptText(h)
	case task.Error:
		r.Text += fmt.Sprintf("it is an error since %s and stops the key until a person decides about it, by taskengine task resume, fail or cancel %v", since, h.ID)
		if h.LastError != "" {
			r.Text += ": " + h.LastError
		}
	default:
		r.Text += fmt.Sprintf("it is %v since %s and has not started; taskengine task why %v says more", h.State, since, h.ID)
	}
	return r
}

// behindWaiting describes a task that waits for its time and has the first seat of its key.
func behindWaiting(first *task.Task) Reason {
	return Reason{
		Code: CodeBehind, Head: first.ID, HeadState: first.State, Until: first.NextEventAt,
		Text: fmt.Sprintf("task %v of type %s has the same ordering key and is before it: it waits for %s", first.ID, first.Type, attemptText(first)),
	}
}

// attemptText says why a task is Waiting.
func attemptText(t *task.Task) string {
	switch {
	case t.NextEventAt.IsZero():
		return "a time, and has none"
	case t.Attempt > 0:
		return fmt.Sprintf("attempt %d at %s, after: %s", t.Attempt+1, t.NextEventAt.Format(time.RFC3339), t.LastError)
	}
	return "its time, " + t.NextEventAt.Format(time.RFC3339)
}

// withProof adds missing proofs of the node to the reasons of a task: it starts nothing without them.
func (e *Engine) withProof(ctx context.Context, t *task.Task, rs []Reason) []Reason {
	holds, ok := e.HoldsPermits()
	for i, r := range rs {
		if ok && !holds && r.Cluster && (r.Code == CodeLimit || r.Code == CodeRate) {
			rs[i].Text += "; the node cannot prove to the coordinator that it is alive, so it has no permits"
		}
	}
	if t.State == task.Submitted && !e.IsMember() {
		text := "the node cannot prove that it is alive, so it starts nothing; others may start the task"
		rs = append([]Reason{{Code: CodeNoProof, Text: text + e.lockText(ctx)}}, rs...)
	}
	return rs
}

// lockText says which session of the database may keep the node from renewing its lease, as the end of a text.
func (e *Engine) lockText(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, heldPatience)
	defer cancel()
	blockers, err := e.Blockers(ctx)
	if err != nil || len(blockers) == 0 {
		return ""
	}
	return "; " + blockers[0].String() + " keeps rows or tables locked that it may need for that"
}
