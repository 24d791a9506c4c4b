//go:build linux || darwin

package plugins

import (
	"slices"
	"time"
)

// Status describes a handler at one moment.
type Status struct {
	Name       string
	Up         bool      // a process takes tasks
	PID        int       // of the newest process
	SDK        string    // SDK that the program uses, such as "python 0.1.0"
	Version    string    // of the handler program, "" if it says none
	Types      []string  // the task types it serves, sorted
	Slots      int       // how many tasks one process runs at once
	Running    int       // tasks that run now
	Waiting    int       // tasks that wait for a slot or for a process
	Starts     int       // processes started so far
	Crashes    int       // processes that died unasked
	LastCrash  string    // how the newest of these ended
	StartedAt  time.Time // of the newest process
	RestartsAt time.Time // when the next process is started, if none runs; else zero
	Down       string    // why no process takes tasks; "" if one does
	Unlimited  string    // why the limits are not enforced; "" if they are, or there are none
	Processes  []Process // that have not ended, in the order of their start
}

// Process is one process of a handler.
type Process struct {
	PID       int
	StartedAt time.Time
	Running   int   // running tasks
	Taken     int   // tasks that it was sent in all
	RSS       int64 // bytes of memory when last measured; 0 if never
	Ending    bool  // it takes no more tasks
	Alone     bool  // it runs a single task that may have killed a process
}

// Status returns the present state of the host.
func (h *Host) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.status
	st.Types = slices.Clone(st.Types)
	st.Up, st.Waiting = h.up(), h.queue.Len()+h.alone.Len()
	for _, base := range h.dispatch.Sessions() {
		s := base.Owner
		st.Running += s.Running()
		st.Processes = append(st.Processes, Process{
			PID: s.proc.PID(), StartedAt: s.proc.started, Running: s.Running(), Taken: s.Taken(), RSS: s.rss,
			Ending: s.Draining() || s.Retired(), Alone: s.alone,
		})
	}
	if !st.Up && h.downBecause != nil {
		st.Down = h.downBecause.Error()
	}
	if !st.Up && h.starting == 0 && h.notBefore.After(time.Now()) {
		st.RestartsAt = h.notBefore
	}
	return st
}
