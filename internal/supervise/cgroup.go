package supervise

import (
	"log/slog"
	"sync"
	"time"
)

// Limits bound the resources of one process together with all processes that it starts. Zero is no
// limit.
type Limits struct {
	Memory    int64   // bytes; the kernel kills processes that need more
	CPU       float64 // cores; the kernel throttles processes that need more
	Processes int     // processes and threads; starting more fails
}

// staleInterval is the time between two removals of stale control groups.
const staleInterval = 10 * time.Second

// Cgroups creates the control groups for the processes of one handler. Its methods may be called from any goroutine.
type Cgroups struct {
	log *slog.Logger

	mu        sync.Mutex
	base      string    // guarded by mu: the parent of the control groups; "" if not known yet
	delegated Limits    // guarded by mu: the limits with controllers enabled below base
	cleaned   time.Time // guarded by mu: when stale groups were last removed
	warned    bool      // guarded by mu: the log says that limits are not enforced
}

// NewCgroups returns a Cgroups that logs to log.
func NewCgroups(log *slog.Logger) *Cgroups { return &Cgroups{log: log} }

// New creates a control group with the given limits for one process. If the limits cannot be enforced, it returns an
// error that says why, and a control group without limits. The group is nil if none can be created; without limits
// that is not an error.
func (c *Cgroups) New(l Limits) (*Cgroup, error) {
	group, err := c.create(l)
	switch {
	case err == nil:
		return group, nil
	case l == Limits{}:
		c.log.Debug("handler has no control group of its own", "error", err)
		return nil, nil
	}
	c.mu.Lock()
	first := !c.warned
	c.warned = true
	c.mu.Unlock()
	if first {
		c.log.Warn("the limits of the handler are not enforced", "error", err)
	}
	group, other := c.create(Limits{})
	if other != nil {
		return nil, err
	}
	return group, err
}

// RemoveStale kills the processes in the control groups of nodes that are dead, and removes these groups. It is called
// before a handler starts its first process, so that a task does not run twice at the same time.
func (c *Cgroups) RemoveStale() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if base, err := c.findBase(); err == nil {
		removeStale(base)
		c.cleaned = time.Now()
	}
}
