package engine

import "github.com/taskengine/taskengine/engine/task"

// withProof adds to the reasons of a task what the node cannot prove at present: it starts nothing without that.
func (e *Engine) withProof(t *task.Task, rs []Reason) []Reason {
	holds, ok := e.HoldsPermits()
	for i, r := range rs {
		if ok && !holds && r.Cluster && (r.Code == CodeLimit || r.Code == CodeRate) {
			rs[i].Text += "; the node cannot prove to the coordinator that it is alive, so it has no permits"
		}
	}
	if t.State == task.Submitted && !e.IsMember() {
		rs = append([]Reason{{Code: CodeNoProof, Text: "the node cannot prove that it is alive, so it starts nothing; others may start the task"}}, rs...)
	}
	return rs
}
