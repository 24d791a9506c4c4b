package engine

import (
	"fmt"

	"github.com/taskengine/taskengine/coord"
)

// BusStatus returns the state of the connection of this node to its bus. It reports false if the node has no bus
// that can fail, see [coord.Reporter].
func (e *Engine) BusStatus() (coord.BusStatus, bool) { return e.cluster.BusStatus() }

// withBus adds to the reasons of a task that another node is to start, or runs, that hints do not reach it.
func (e *Engine) withBus(rs []Reason) []Reason {
	status, ok := e.BusStatus()
	if !ok || status.Down == nil {
		return rs
	}
	for _, r := range rs {
		if r.Code == CodeElsewhere {
			return append(rs, Reason{Code: CodeBus, Text: fmt.Sprintf("hints do not reach that node, so it finds the task in the store, within about a second: %v", status.Down)})
		}
	}
	return rs
}
