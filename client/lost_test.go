package client_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
)

// lossy passes connections on to a node. Of each it passes some bytes of the answers. The rest of the answer is lost, and
// ends the connection.
type lossy struct {
	net.Listener
	node string
	seed uint64
	lost atomic.Int32
	work sync.WaitGroup
}

func newLossy(t *testing.T, node string, seed uint64) *lossy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{Listener: l, node: node, seed: seed}
	p.work.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.work.Wait()
	})
	return p
}

func (p *lossy) serve() {
	rng := rand.New(rand.NewPCG(p.seed, 0))
	for {
		near, err := p.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.node)
		if err != nil {
			near.Close()
			continue
		}
		limit := 1000 + rng.Int64N(5000)
		p.work.Go(func() { io.Copy(far, near); far.Close() })
		p.work.Go(func() {
			defer near.Close()
			defer far.Close()
			if _, err := io.CopyN(near, far, limit); err != nil {
				return
			}
			if _, err := far.Read(make([]byte, 64<<10)); err == nil {
				p.lost.Add(1)
			}
		})
	}
}

func TestASubmitWithALostAnswerAddsOneTask(t *testing.T) {
	n := newTasks(t)
	address, _ := n.serve(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	wire := newLossy(t, address, seed)
	c := open(t, client.Options{}, wire.Addr().String())
	const submitters, each = 8, 100
	var all sync.WaitGroup
	for range submitters {
		all.Go(func() {
			for i := range each {
				if r, err := c.Submit(t.Context(), "idle", i); err != nil || !r.Created {
					t.Errorf("submit returns %v, %v", r, err)
					return
				}
			}
		})
	}
	all.Wait()
	c.Close()
	if wire.lost.Load() == 0 {
		t.Error("no answer was lost")
	}
	if got := n.count(t, "idle"); got != submitters*each {
		t.Errorf("there are %d tasks of %d that were accepted; %d answers were lost", got, submitters*each, wire.lost.Load())
	}
}

// Nodes stop one after the other while tasks are submitted, and others take their places.
func TestTheNextNodeIsUsedWhenOneStops(t *testing.T) {
	n := newTasks(t)
	const nodes = 4
	addresses, stops := make([]string, nodes), make([]func(), nodes)
	for i := range nodes {
		addresses[i], stops[i] = n.serve(t)
	}
	c := open(t, client.Options{}, addresses...)
	var all sync.WaitGroup
	var added atomic.Int64
	over := make(chan struct{})
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				r, err := c.Submit(t.Context(), "idle", nil)
				if err != nil || !r.Created {
					t.Errorf("submit returns %v, %v", r, err)
					return
				}
				added.Add(1)
				if _, err := c.Get(t.Context(), r.ID); err != nil {
					t.Errorf("get: %v", err)
					return
				}
			}
		})
	}
	awaitMore := func() {
		for before := added.Load(); added.Load() < before+50 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	for _, stop := range stops[:nodes-1] {
		awaitMore()
		stop()
	}
	awaitMore()
	close(over)
	all.Wait()
	if got := n.count(t, "idle"); int64(got) != added.Load() {
		t.Errorf("there are %d tasks of %d that were accepted", got, added.Load())
	}
	stops[nodes-1]()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Get(ctx, [16]byte{1}); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("without nodes: %v", err)
	}
}
