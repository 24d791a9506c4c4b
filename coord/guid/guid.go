package guid

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/guid/internal/election"
	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/task"
)

// DefaultLease is the lease if [Options] have none.
const DefaultLease = 12 * time.Second

// minLease leaves time for messages to arrive.
const minLease = 100 * time.Millisecond

// topic is the beginning of the topics of messages; the role follows.
const topic = "guid/"

// Options say how to elect.
type Options struct {
	// Lease is for how long others believe in a candidate after its last message; 0 is [DefaultLease]. A message is
	// sent every quarter of it, for each role. Nodes may have different leases. It is at least 100 ms and at most an
	// hour, and should be sixteen times as long as messages are under way, or more.
	Lease time.Duration

	// MustHear says that a node that does not receive its own messages does not lead. By default it does. The package
	// comment describes the effects.
	MustHear bool

	// Log gets a line when a leadership ends that was not given up, and when a leader does not receive its own messages;
	// nil is not to log.
	Log *slog.Logger
}

// Elector is the part that one process takes in elections. It is safe for concurrent use. It has no goroutines beside
// its calls, and need not be closed.
type Elector struct {
	messages  coord.Messages
	rules     election.Rules
	log       *slog.Logger
	ids       *task.IDs   // of candidates
	inProcess *local.Node // orders the candidates of this process
}

var _ coord.Elector = (*Elector)(nil)

// New returns an elector of the nodes that the messages connect. The caller closes them after all calls have returned,
// so that the others learn that its leaders have resigned.
func New(messages coord.Messages, o Options) (*Elector, error) {
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	if o.Lease < minLease || o.Lease > election.MaxLease {
		return nil, fmt.Errorf("a lease of %v: want %v to %v", o.Lease, minLease, election.MaxLease)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var seed [32]byte
	_, _ = cryptorand.Read(seed[:]) // it never fails
	return &Elector{
		messages:  messages,
		rules:     election.Rules{Lease: o.Lease, MustHear: o.MustHear},
		log:       o.Log,
		ids:       task.NewIDs(seed),
		inProcess: local.New(),
	}, nil
}

// Lead implements [coord.Elector], as far as the package comment promises. Callers in one process get a role in the
// order of their calls, and exclude each other. The role is given up when fn has returned. If the messages end, Lead
// returns their error. A role may have any bytes; with the messages about it, it must fit into [coord.MaxMessage].
func (e *Elector) Lead(ctx context.Context, role string, fn func(ctx context.Context) error) error {
	if err := coord.CheckMessage(topic+role, make([]byte, election.MaxSize)); err != nil {
		return fmt.Errorf("the role %.40q is too long: %w", role, err)
	}
	return e.inProcess.Lead(ctx, role, func(ctx context.Context) error {
		for ctx.Err() == nil {
			c := e.candidate(role)
			held, err := lease.Lead(ctx, c.begin, c.end, fn)
			if held {
				return err
			}
			if c.failed != nil {
				return fmt.Errorf("receive the messages of other candidates: %w", c.failed)
			}
		}
		return context.Cause(ctx)
	})
}

// entropy is a source of random numbers that a copy of a running process does not repeat.
type entropy struct{}

func (entropy) Uint64() uint64 {
	var b [8]byte
	_, _ = cryptorand.Read(b[:]) // it never fails
	return binary.NativeEndian.Uint64(b[:])
}
