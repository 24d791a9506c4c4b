package client

import (
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// SliceSource is a source of time slices: platforms that are polled for what happened in slices of time. Counts are sums over its
// platforms.
type SliceSource struct {
	Name          string
	Type          string // of the tasks of its slices
	PlatformCount uint32
	LowWater      time.Time     // the oldest one of its platforms; zero: none has begun
	CursorLag     time.Duration // the longest one of its platforms

	Running  uint64 // slices that run or will
	Failed   uint64 // slices that have failed, and wait until they are retried
	Stopped  uint32 // platforms that are stopped by their breaker
	Paused   uint32 // platforms
	Problems uint32 // platforms that have a problem

	Orders  uint32 // that it has not carried out, or has not passed to all of its platforms
	Problem string // why it carries out no orders; empty if it does

	Values  []SliceSetting // that are set for it, by name; not in lists
	History []SliceChange  // the newest changes, the oldest first; not in lists
	TaskID  task.ID        // of the task that is the source

	// OnlyOn is the name of the node that has these values and platforms in a store of its own, if nodes with stores of their own share the
	// platforms; empty: all nodes have them.
	OnlyOn  string
	Version uint64 // of its values: grows with each change of them, also by the configuration, and when the clock was set back
}

// Platform is a platform of a source of time slices.
type Platform struct {
	Source    string
	Name      string
	Cursor    time.Time     // the start of its next slice; zero: it has not begun
	LowWater  time.Time     // all slices before it have ended
	CursorLag time.Duration // the time from its cursor to the present
	Next      time.Time     // when its cursor runs next; zero: at the next order

	Running uint32        // slices that run or will
	Failed  uint32        // slices that have failed, and wait until they are retried
	Stopped *PlatformStop // by its breaker; nil: it is not
	Paused  *SourcePause  // nil: it is not
	Removed bool
	Orders  uint32 // that were accepted and are not carried out yet
	Problem string // why it does not go on, or why its newest values are not in force; empty if neither

	Made    uint64 // slices, since it was added
	Done    uint64
	GivenUp uint64 // slices whose tasks were cancelled or failed by hand

	Settings []SliceSetting // in force, by name; none before it has begun; not in lists
	Slices   []OpenSlice    // that have not ended, in the order in which they were made; not in lists
	History  []SliceChange  // the newest changes, the oldest first; not in lists
	TaskID   task.ID        // of its cursor

	Version    uint64            // grows with each change of its own values, and when it is added or removed
	Own        map[string]string // the values that were set for it while nodes ran, after its orders
	Configured bool              // the configuration of the source names it
}

// PlatformStop says that the breaker has stopped a platform.
type PlatformStop struct {
	Since  time.Time
	Next   time.Time // when a failed slice is tried again
	Probes uint32    // how many were
}

// SliceSetting is a value of a source or a platform, as text.
type SliceSetting struct {
	Name  string
	Value string
	From  string // own, file_own, live, file, default, or before: the newest values cannot be, and an earlier one is in force
}

// OpenSlice is a slice that has not ended.
type OpenSlice struct {
	Start    time.Time
	End      time.Time // the start of the next slice
	FailedAt time.Time // zero: it has not failed
	TaskID   task.ID
}

// SliceChange is a change of a source or a platform.
type SliceChange struct {
	At   time.Time
	By   string
	What string // with its reason, for people
}

func (d *decoder) sliceSource(m *taskenginev1.SliceSource) *SliceSource {
	return &SliceSource{
		Name: m.GetName(), Type: m.GetType(), PlatformCount: m.GetPlatformCount(), LowWater: timeOf(m.GetLowWater()), CursorLag: m.GetCursorLag().AsDuration(),
		Running: m.GetRunning(), Failed: m.GetFailed(), Stopped: m.GetStopped(), Paused: m.GetPaused(), Problems: m.GetProblems(),
		Orders: m.GetOrders(), Problem: m.GetProblem(),
		Values: all(m.GetValues(), sliceSettingOf), History: all(m.GetHistory(), sliceChangeOf), TaskID: d.id(m.GetTaskId()), OnlyOn: m.GetOnlyOn(), Version: m.GetVersion(),
	}
}

func (d *decoder) platform(m *taskenginev1.Platform) *Platform {
	p := &Platform{
		Source: m.GetSource(), Name: m.GetName(), Cursor: timeOf(m.GetCursor()), LowWater: timeOf(m.GetLowWater()), CursorLag: m.GetCursorLag().AsDuration(),
		Next: timeOf(m.GetNext()), Running: m.GetRunning(), Failed: m.GetFailed(), Removed: m.GetRemoved(), Orders: m.GetOrders(), Problem: m.GetProblem(),
		Made: m.GetMade(), Done: m.GetDone(), GivenUp: m.GetGivenUp(),
		Settings: all(m.GetSettings(), sliceSettingOf), Slices: all(m.GetSlices(), d.openSlice), History: all(m.GetHistory(), sliceChangeOf), TaskID: d.id(m.GetTaskId()),
		Version: m.GetVersion(), Own: m.GetOwn(), Configured: m.GetConfigured(),
	}
	if s := m.GetStopped(); s != nil {
		p.Stopped = &PlatformStop{Since: timeOf(s.GetSince()), Next: timeOf(s.GetNext()), Probes: s.GetProbes()}
	}
	if s := m.GetPaused(); s != nil {
		p.Paused = &SourcePause{Since: timeOf(s.GetSince()), Reason: s.GetReason()}
	}
	return p
}

func (d *decoder) openSlice(m *taskenginev1.OpenSlice) OpenSlice {
	return OpenSlice{Start: timeOf(m.GetStart()), End: timeOf(m.GetEnd()), FailedAt: timeOf(m.GetFailedAt()), TaskID: d.id(m.GetTaskId())}
}

func sliceSettingOf(m *taskenginev1.SliceSetting) SliceSetting {
	return SliceSetting{Name: m.GetName(), Value: m.GetValue(), From: m.GetFrom()}
}

func sliceChangeOf(m *taskenginev1.SliceChange) SliceChange {
	return SliceChange{At: timeOf(m.GetAt()), By: m.GetBy(), What: m.GetWhat()}
}
