package postgres_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// losing is a proxy of a database. When a statement contains the marker, the database executes it, and
// the connection is closed before the answer arrives.
type losing struct {
	listener net.Listener
	to       string
	marker   atomic.Pointer[[]byte] // nil: nothing is lost
	lost     atomic.Int64

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

func newLosing(t *testing.T, to string) (l *losing, through string) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = &losing{listener: listener, to: u.Host}
	var serving sync.WaitGroup
	serving.Go(func() { l.serve(&serving) })
	t.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.mu.Unlock()
		serving.Wait()
	})
	u.Host = listener.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return l, u.String()
}

func (l *losing) serve(serving *sync.WaitGroup) {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, near, far)
		l.mu.Unlock()
		var doomed atomic.Bool
		serving.Go(func() { l.forward(near, far, &doomed) })
		serving.Go(func() { l.answer(far, near, &doomed) })
	}
}

// forward passes on the bytes of a client.
func (l *losing) forward(near, far net.Conn, doomed *atomic.Bool) {
	defer far.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := near.Read(buf)
		if err != nil {
			return
		}
		if m := l.marker.Load(); m != nil && bytes.Contains(buf[:n], *m) && l.marker.CompareAndSwap(m, nil) {
			doomed.Store(true)
		}
		if _, err := far.Write(buf[:n]); err != nil {
			return
		}
	}
}

// answer passes on the answers of the server, message by message.
func (l *losing) answer(far, near net.Conn, doomed *atomic.Bool) {
	defer near.Close()
	done := false // a statement has been completed since the last time that the server was ready
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(far, head); err != nil {
			return
		}
		body := make([]byte, max(4, binary.BigEndian.Uint32(head[1:]))-4)
		if _, err := io.ReadFull(far, body); err != nil {
			return
		}
		switch head[0] {
		case 'C': // CommandComplete
			done = true
		case 'Z': // ReadyForQuery: everything before it is committed
			if done && doomed.Load() && body[0] == 'I' {
				l.lost.Add(1)
				_ = far.Close()
				return
			}
			done = false
		}
		if doomed.Load() {
			continue // the client waits for the end of its statements
		}
		if _, err := near.Write(append(head, body...)); err != nil {
			return
		}
	}
}

func TestATaskWithALostAnswerRunsThoughItIsAskedForAgain(t *testing.T) {
	database := server.Database(t)
	postgrestest.Open(t, database) // makes the tables
	l, through := newLosing(t, database)
	nothing := func(context.Context, *node, *task.Task) ([]byte, error) { return nil, nil }
	p := policy.DefaultType()
	p.Delivery = policy.AtMostOnce
	n := alone(t, through, policy.Set{Slots: 10, Types: map[string]policy.Type{"pay": p}}, map[string]work{"pay": nothing})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	submit := func(id task.ID, payload string) error {
		_, err := n.Submit(ctx, engine.Request{ID: id, Type: "pay", Payload: []byte(payload)})
		return err
	}
	if err := submit(task.ID{0: 1, 15: 1}, "first"); err != nil { // prepares the statements
		t.Fatal(err)
	}
	id, marker := task.ID{0: 1, 15: 2}, []byte("this answer is lost")
	l.marker.Store(&marker)
	if err := submit(id, string(marker)); err == nil || l.lost.Load() != 1 {
		t.Fatalf("%d answers were lost, and the submit says %v", l.lost.Load(), err)
	}
	for submit(id, "again") != nil {
		if ctx.Err() != nil {
			t.Fatal("it is not accepted again")
		}
	}
	if err := n.WaitTasks(ctx, id); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Get(ctx, id); err != nil || got.State != task.Done || string(got.Payload) != string(marker) || n.runs(id) != 1 {
		t.Errorf("got %+v, %v after %d runs", got, err, n.runs(id))
	}
}
