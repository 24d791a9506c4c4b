// Package workers runs handlers in processes that connect to the node by themselves: workers. Their users start and stop
// them, in containers or autoscaling groups. A [Pool] is the [task.Handler] of one handler, and a [Service] is the
// server that workers connect to.
//
// A Pool guarantees:
//
//   - Handle returns when the worker has answered, or when its answer cannot count any more.
//   - A task that was not sent to a worker ends with [task.ErrUnavailable]. A task that loses its worker ends with
//     [task.ErrInterrupted], and from the third loss on with [task.ErrCrashed].
//   - A worker keeps its tasks for [Config.Reconnect] after its connection breaks. A worker that connects again within
//     this time goes on with them, and answers that were lost on the way are sent again.
//   - Answers that a worker has when its node dies are given to the next node that it connects to: see [Earlier].
//   - A worker that is silent for longer than [Config.Liveness] is cut off. Its later answers have no effect.
//
// Package handler has the other side. docs/handlers.md specifies the protocol.
package workers

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/policy"
)

// Config says which workers may run the tasks of a handler, and how. Name and Types are required. The zero value of every
// other field is a default.
type Config struct {
	Name   string            // of the handler, in logs, errors and metrics
	Types  []string          // that each worker has to serve
	Labels map[string]string // that each worker has to have, with these values; a worker may have more

	Slots      int // most tasks at once in one worker; 0 leaves it to the worker
	MaxResult  int // largest result in bytes; default [policy.DefaultMaxResult]
	MaxPayload int // largest payload in bytes that a task may be given to run again; default [policy.DefaultMaxPayload]

	// MayWrite are the keys of the documents that workers may read and write, and MayRead those of more that they may read. A key that
	// ends with * stands for all that begin with the text before it.
	MayRead, MayWrite []string

	Reconnect time.Duration // how long a worker without a connection keeps its tasks; default 5 s, negative for not at all
	Liveness  time.Duration // how long a worker may be silent; default 10 s
	Grace     time.Duration // from cancelling a task until its worker's answer does not count any more; default 10 s

	Logger *slog.Logger // for the pool and the log lines of workers; nil for none
	Host   string       // name and version of this node, sent to workers
}

// The defaults of the times of a [Config].
const (
	DefaultReconnect = 5 * time.Second
	DefaultLiveness  = 10 * time.Second
	DefaultGrace     = 10 * time.Second
)

const (
	pingsPerLease = 4 // pings in the time that a lease is made from
	shortestLease = time.Second
)

// Lease returns how long a worker keeps its runs after a frame of it has arrived, even without a connection. The
// worker begins no run later than that after a moment when the node has certainly heard it, and a restarted node
// gives no run to others earlier.
func (p *Pool) Lease() time.Duration {
	whole := p.wholeLease()
	return whole - whole/8 // the clocks of two machines do not run at the same speed
}

func (p *Pool) wholeLease() time.Duration {
	return min(p.cfg.Liveness, max(p.cfg.Reconnect, shortestLease))
}

// pingInterval returns the time between two pings. The answer to one of them is known to have arrived with the next, long
// before the lease ends that follows from the one before.
func (p *Pool) pingInterval() time.Duration { return p.wholeLease() / pingsPerLease }

// ErrClosed wraps the errors of a closed [Pool], next to [task.ErrUnavailable].
var ErrClosed = errors.New("the node takes no more workers")

// withDefaults returns c with its defaults filled in, or an error.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Name == "":
		return c, errors.New("workers: the handler has no name")
	case c.Slots < 0 || c.Slots > dispatch.MaxSlots:
		return c, fmt.Errorf("workers: handler %q: slots is %d: give 0 to %d", c.Name, c.Slots, dispatch.MaxSlots)
	case c.MaxResult < 0 || c.MaxPayload < 0:
		return c, fmt.Errorf("workers: handler %q: the largest result has %d bytes and the largest payload %d: give 0 (default) or more", c.Name, c.MaxResult, c.MaxPayload)
	case c.Liveness < 0 || c.Grace < 0:
		return c, fmt.Errorf("workers: handler %q: liveness is %v and grace %v: give 0 (default) or more", c.Name, c.Liveness, c.Grace)
	}
	defaultTo(&c.MaxResult, policy.DefaultMaxResult)
	defaultTo(&c.MaxPayload, policy.DefaultMaxPayload)
	defaultTo(&c.Reconnect, DefaultReconnect)
	defaultTo(&c.Liveness, DefaultLiveness)
	defaultTo(&c.Grace, DefaultGrace)
	c.Reconnect = max(0, c.Reconnect)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func defaultTo[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
