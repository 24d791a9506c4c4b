package guid

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord/guid/internal/election"
	"github.com/taskengine/taskengine/coord/internal/lease"
)

// candidate is one candidacy: one goroutine that carries messages and the time to a machine, and carries out its decisions.
type candidate struct {
	*Elector
	role  string
	lease *lease.Lease
	stop  context.CancelFunc
	loops sync.WaitGroup
	start time.Time // the times of machine count from here

	machine    *election.Machine // of run
	state      election.State    // of run: the last state that lease got
	isIsolated bool              // of run: the last logged state

	led    bool  // set when loops have ended: it led until it was stopped
	failed error // set when loops have ended: why no more messages come; nil: they do
}

func (e *Elector) candidate(role string) *candidate {
	c := &candidate{Elector: e, role: role, start: time.Now()}
	c.machine = election.New(0, e.ids.Next(c.start), e.rules, rand.New(entropy{}))
	return c
}

// begin starts the candidacy.
func (c *candidate) begin(l *lease.Lease) {
	ctx, stop := context.WithCancel(context.Background())
	c.lease, c.stop = l, stop
	c.loops.Go(func() { c.run(ctx) })
}

// end ends the candidacy, and reports whether it led until now.
func (c *candidate) end() (led bool) {
	c.stop()
	c.loops.Wait()
	return c.led
}

// run handles the events of the candidate until it is stopped or over.
func (c *candidate) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	arrived, ended := make(chan []byte), make(chan error, 1)
	c.loops.Go(func() {
		ended <- c.messages.Receive(ctx, topic+c.role, func(message []byte) {
			select {
			case arrived <- message:
			case <-ctx.Done():
			}
		})
	})
	defer cancel()
	timer := time.NewTimer(c.machine.Next())
	defer timer.Stop()
	for c.machine.State() != election.Over {
		select {
		case <-ctx.Done():
			c.led = c.state == election.Leading
			c.send(c.machine.Stop(c.now()))
			return
		case err := <-ended:
			if err != nil {
				c.failed = err
				c.machine.Stop(c.now())
				c.tell(err)
				return
			}
		case message := <-arrived:
			c.receive(message)
		case <-timer.C:
			c.apply(c.machine.Tick(c.now()))
		}
		timer.Reset(c.machine.Next() - c.now())
	}
}

// now returns the time for the machine, by the clock that never goes back.
func (c *candidate) now() time.Duration { return time.Since(c.start) }

func (c *candidate) receive(message []byte) {
	if message == nil {
		c.apply(c.machine.Connected(c.now()))
		return
	}
	m, err := election.Decode(message)
	if err != nil {
		c.log.Debug("a message is not understood", "role", c.role, "error", err)
		return
	}
	c.apply(c.machine.Received(c.now(), m))
}

// apply carries out the decisions of the machine. A leader's context ends before the others learn of it.
func (c *candidate) apply(out []election.Message) {
	c.tell(c.machine.Why())
	c.send(out)
	c.noteIsolation()
}

// noteIsolation logs that a leader may not be the only one, and that it knows again.
func (c *candidate) noteIsolation() {
	isolated := c.machine.IsIsolated()
	if isolated == c.isIsolated || c.state != election.Leading {
		return
	}
	if c.isIsolated = isolated; isolated {
		c.log.Warn("messages do not arrive, not even this node's own: it leads, and others may do so as well", "role", c.role)
	} else {
		c.log.Info("messages arrive again", "role", c.role)
	}
}

// tell passes a new state on. why is the reason if the candidacy is over.
func (c *candidate) tell(why error) {
	was, is := c.state, c.machine.State()
	if is == was {
		return
	}
	c.state = is
	if is == election.Leading {
		c.lease.Grant()
		return
	}
	if errors.Is(why, election.ErrDuplicate) {
		c.log.Warn("another process has the id of a candidate of this one; was the machine copied while it ran? A new id is used", "role", c.role)
	}
	if was == election.Leading {
		c.log.Info("a leadership has ended", "role", c.role, "reason", why)
		c.lease.Lose(why)
	} else {
		c.lease.Refuse(why)
	}
}

// send sends messages. If that fails, no more are received either, and run learns of it.
func (c *candidate) send(out []election.Message) {
	for _, m := range out {
		_ = c.messages.Send(topic+c.role, m.Append(nil))
	}
}
