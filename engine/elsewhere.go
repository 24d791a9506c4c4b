package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
)

// elsewhere returns why a task does not run on this node if that is another's: it runs
// there, or that is to start it. It is called with mu held.
func (e *Engine) elsewhere(t *task.Task) (Reason, bool) {
	members := e.cluster.members
	if len(members) == 0 || e.core.Holds(t.ID) {
		return Reason{}, false
	}
	if t.State == task.Processing {
		since := t.StartedAt.Format(time.RFC3339)
		if i := slices.IndexFunc(members, func(m coord.Member) bool { return m.Incarnation == t.Owner }); i >= 0 {
			return Reason{Code: CodeRunning, Text: fmt.Sprintf("attempt %d runs on node %s since %s", t.Attempt, members[i].Name, since)}, true
		}
		return Reason{Code: CodeNodeGone, Text: fmt.Sprintf("attempt %d ran since %s on a node that is gone; what becomes of it is decided when that is certain", t.Attempt, since)}, true
	}
	if e.core.Owns(t.Type, t.Shard) {
		return Reason{}, false
	}
	for _, m := range members {
		if m.Incarnation == e.incarnation {
			continue
		}
		if own := assign(m.Incarnation, members); own.Has(t.Type, t.Shard) {
			return Reason{Code: CodeElsewhere, Text: "node " + m.Name + " is to start it, and knows why it does not"}, true
		}
	}
	return Reason{}, false
}
