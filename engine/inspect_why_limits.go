package engine

import (
	"cmp"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

// pausedLimits returns the paused limits of a ready task: every node knows them.
func pausedLimits(t *task.Task, w core.Why) (rs []Reason) {
	if t.State != task.Submitted {
		return nil
	}
	for _, u := range w.Limits {
		if u.Paused {
			rs = append(rs, limitReason(u, nil))
		}
	}
	return rs
}

// limitName returns the name of a limit for display.
func limitName(u table.Usage) string {
	name := "limit " + u.Name
	if u.Name == "" {
		name = "the node's slots"
	}
	if u.Value != "" {
		name += " for " + u.Value
	}
	return name
}

func limitReason(u table.Usage, holders []task.ID) Reason {
	r := reasonOf(CodeLimit, u, holders)
	r.Text = fmt.Sprintf("%s: %s", limitName(u), usedText(u))
	switch {
	case u.Paused:
		r.Code, r.Text = CodePaused, limitName(u)+" is paused"
	case u.OpenAt != 0:
		r.Code, r.Until = CodeRate, time.Unix(0, u.OpenAt).UTC()
		r.Text = limitName(u) + ": its rate is used up until " + r.Until.Format(time.RFC3339Nano)
	case u.Need > 1:
		r.Text += fmt.Sprintf("; it takes %d, and %d are free", u.Need, freeSlots(u))
	}
	return r
}

// reasonOf returns a reason with the use of a limit.
func reasonOf(code string, u table.Usage, holders []task.ID) Reason {
	return Reason{
		Code: code, Limit: u.Name, Value: u.Value, Used: u.Used, Max: u.Max, Holders: holders,
		Cluster: u.Cluster, Held: u.Held, Waiting: u.Waiting,
	}
}

// usedText says how much of a limit is used.
func usedText(u table.Usage) string {
	if !u.Cluster {
		return fmt.Sprintf("%d of %d used", u.Used, u.Max)
	}
	text := fmt.Sprintf("this node uses %d of the %d permits that it has, of %d in the cluster", u.Used, u.Held, u.Max)
	if u.Waiting > 0 {
		text += fmt.Sprintf("; other nodes wait for %d", u.Waiting)
	}
	return text
}

// freeSlots returns how many slots of a limit tasks of this node can take now.
func freeSlots(u table.Usage) int {
	if u.Cluster {
		return max(0, min(u.Held, u.Max)-u.Used)
	}
	return max(0, u.Max-u.Used)
}

// beforeReason describes a limit that has room for a task, but not for another task that ranks
// before it.
func beforeReason(u table.Usage, holders []task.ID) Reason {
	r := reasonOf(CodeQueue, u, holders)
	r.Text = fmt.Sprintf("%s: task %v of type %s is before it and needs %d slots; %d are free", limitName(u), u.Before.ID, u.Before.Type, u.Before.Need, freeSlots(u))
	return r
}

// turnReason describes a fair limit when it is the turn of another value.
func turnReason(u table.Usage, holders []task.ID) Reason {
	r := reasonOf(CodeQueue, u, holders)
	turn := cmp.Or(u.Turn, "the tasks without a value")
	r.Text = fmt.Sprintf("%s: its values take turns, and it is the turn of %s", limitName(u), turn)
	return r
}
