package cli

import (
	"fmt"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of worker share this file.

// showWorkers writes workers as rows, or each as a line of JSON.
func (a *app) showWorkers(workers []*taskenginev1.Worker) error {
	if a.json() {
		return printMessages(a, workers)
	}
	now := time.Now()
	rows := make([][]string, len(workers))
	for i, w := range workers {
		rows[i] = []string{
			w.GetNode(), w.GetId(), w.GetName(), w.GetState(), fmt.Sprintf("%d/%d", w.GetRunning(), w.GetSlots()), age(now, w.GetConnectedAt()), clockAhead(w), w.GetVersion(), w.GetSdk(),
		}
	}
	return a.printTable([]string{"NODE", "WORKER", "NAME", "STATE", "RUNNING", "CONNECTED", "CLOCK", "VERSION", "SDK"}, rows, "SDK", "VERSION", "CONNECTED", "NODE")
}

// clockAhead returns how far the clock of a worker is ahead of that of the node; "" if that is not known.
func clockAhead(w *taskenginev1.Worker) string { return aheadText(w.GetClockAhead()) }
