package engine

import (
	"context"

	"github.com/taskengine/taskengine/task"
)

// withProof adds to the reasons of a task what the node cannot prove at present: it starts nothing without that.
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
