package cli

import (
	"fmt"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of worker share this file.

// workerJSON is a worker in the contract of -o json.
type workerJSON struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Handler     string     `json:"handler"`
	State       string     `json:"state"`
	Slots       uint32     `json:"slots"`
	Running     uint32     `json:"running"`
	ConnectedAt *time.Time `json:"connected_at,omitempty"`
	SDK         string     `json:"sdk,omitempty"`
	Version     string     `json:"version,omitempty"`
	ClockAhead  *int64     `json:"clock_ahead_ms,omitempty"`
}

// showWorkers writes workers as rows, or each as a line of JSON.
func (a *app) showWorkers(workers []*taskenginev1.Worker) error {
	now := time.Now()
	rows := make([][]string, len(workers))
	for i, w := range workers {
		if a.json() {
			j := workerJSON{w.GetId(), w.GetName(), w.GetHandler(), w.GetState(), w.GetSlots(), w.GetRunning(), timeToJSON(w.GetConnectedAt()), w.GetSdk(), w.GetVersion(), nil}
			if d := w.GetClockAhead(); d != nil {
				ahead := d.AsDuration().Milliseconds()
				j.ClockAhead = &ahead
			}
			if err := a.printJSON(j); err != nil {
				return err
			}
		}
		rows[i] = []string{
			w.GetId(), w.GetName(), w.GetState(), fmt.Sprintf("%d/%d", w.GetRunning(), w.GetSlots()), age(now, w.GetConnectedAt()), clockAhead(w), w.GetVersion(), w.GetSdk(),
		}
	}
	if a.json() {
		return nil
	}
	return a.printTable([]string{"WORKER", "NAME", "STATE", "RUNNING", "CONNECTED", "CLOCK", "VERSION", "SDK"}, rows, "SDK", "VERSION", "CONNECTED")
}

// clockAhead returns how far the clock of a worker is ahead of that of the node, as in +1.25s, with the precision of the
// estimate; "" if that is not known.
func clockAhead(w *taskenginev1.Worker) string {
	if w.GetClockAhead() == nil {
		return ""
	}
	ahead := w.GetClockAhead().AsDuration().Round(10 * time.Millisecond)
	if ahead < 0 {
		return ahead.String()
	}
	return "+" + ahead.String()
}
