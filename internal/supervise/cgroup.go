package supervise

import (
	"log/slog"
	"sync"
	"time"
)

// Limits are what one process may use, with all that it starts. Zero is no limit.
type Limits struct {
	Memory    int64   // bytes; who needs more is killed
	CPU       float64 // cores; who needs more is slowed down
	Processes int     // processes and threads; who needs more cannot start them
}

// sweepEvery is how often cages are removed that nothing uses any more, at most.
const sweepEvery = 10 * time.Second

// Cages makes the cages of the processes of one handler. Its methods may be called from
// any goroutine.
type Cages struct {
	log *slog.Logger

	mu      sync.Mutex
	base    string    // guarded by mu: the control group below which they are; "" if not known yet
	allowed Limits    // guarded by mu: limits that the base is known to allow
	swept   time.Time // guarded by mu: when cages were last swept
	warned  bool      // guarded by mu: somebody was told that limits are not enforced
}

// NewCages returns a maker of cages that says to log what is wrong.
func NewCages(log *slog.Logger) *Cages { return &Cages{log: log} }

// New returns a cage for the next process, nil if there can be none. The error says why the
// limits are not enforced, if they are not: the cage is then one without limits.
func (c *Cages) New(l Limits) (*Cage, error) {
	cage, err := c.make(l)
	switch {
	case err == nil:
		return cage, nil
	case l == Limits{}:
		c.log.Debug("handler is in no control group of its own", "error", err)
		return nil, nil
	}
	c.mu.Lock()
	first := !c.warned
	c.warned = true
	c.mu.Unlock()
	if first {
		c.log.Warn("the limits of the handler are not enforced", "error", err)
	}
	cage, other := c.make(Limits{})
	if other != nil {
		return nil, err
	}
	return cage, err
}

// Sweep ends what nodes that are dead have left in their cages, and removes these. It is
// called before a handler starts anything, so that a task does not run beside itself.
func (c *Cages) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if base, err := c.where(); err == nil {
		sweepCages(base)
		c.swept = time.Now()
	}
}
