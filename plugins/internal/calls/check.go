package calls

import (
	"slices"
	"strings"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Bounds of the answer to a check.
const (
	maxRefusals = 1000
	maxText     = 500 // bytes of the message of a refusal
)

// Check answers a check of a run that reports to r. Without a [task.Checker] nothing is refused but what the rights forbid.
func Check(r task.Reporter, k *wire.Check, rights *Rights) *wire.Checked {
	answer := &wire.Checked{RunId: k.GetRunId(), Number: k.GetNumber()}
	requests := make([]task.Request, len(k.GetChildren()))
	for i, c := range k.GetChildren() {
		requests[i] = requestOf(c, rights)
	}
	barred := barredOf(requests, rights.Adds)
	var refused []task.Refusal
	if checker, ok := r.(task.Checker); ok {
		var err error
		if refused, err = checker.Check(k.GetSet(), requests); err != nil {
			answer.Error = cut(err.Error(), wire.MaxErrorBytes)
			return answer
		}
	}
	for _, f := range merged(barred, refused) {
		m := &wire.Refusal{Index: uint32(f.Index), Reason: wire.Refusal_Reason(f.Reason), Message: cut(f.Text, maxText)}
		if !f.ID.IsZero() {
			m.TaskId = f.ID[:]
		}
		answer.Refusals = append(answer.Refusals, m)
		if len(answer.Refusals) == maxRefusals {
			break
		}
	}
	return answer
}

// barredOf returns the refusals of tasks that the worker may not add.
func barredOf(requests []task.Request, forbidden func(types ...string) error) (refused []task.Refusal) {
	if forbidden == nil {
		return nil
	}
	why := make(map[string]error)
	for i := range requests {
		typ := requests[i].Type
		if _, ok := why[typ]; !ok {
			why[typ] = forbidden(typ)
		}
		if err := why[typ]; err != nil {
			refused = append(refused, task.Refusal{Index: i, Reason: task.RefusedForbidden, Text: err.Error()})
		}
	}
	return refused
}

// merged returns refusals by their indexes. Of the requests that are barred it says nothing else: their types are none of the worker's business.
func merged(barred, refused []task.Refusal) []task.Refusal {
	if len(barred) == 0 {
		return refused
	}
	refused = slices.DeleteFunc(refused, func(r task.Refusal) bool {
		_, isBarred := slices.BinarySearchFunc(barred, r.Index, func(b task.Refusal, index int) int { return b.Index - index })
		return isBarred
	})
	refused = append(refused, barred...)
	slices.SortFunc(refused, func(a, b task.Refusal) int { return a.Index - b.Index })
	return refused
}

func cut(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "\uFFFD") }
