package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/internal/wiretest"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// listen returns the address of a listener that is served until the test ends.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			t.Cleanup(func() { conn.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		work.Wait()
	})
	return l.Addr().String()
}

// serveAll serves every method of gRPC in one way, and returns the address.
func serveAll(t *testing.T, answer func(context.Context) error) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return answer(s.Context()) }))
	var work sync.WaitGroup
	work.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		work.Wait()
	})
	return l.Addr().String()
}

// used makes calls of each kind. Of a call that is made once, it makes another one if the first has failed.
func used(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	request, err := client.New("idle", 1)
	if err != nil {
		t.Fatal(err)
	}
	var id task.ID
	for _, one := range []struct {
		name string
		call func() error
	}{
		{"read", func() error { _, _, err := c.Limits(ctx); return err }},
		{"submit", func() error { r, err := c.Submit(ctx, "idle", 1); id = r.ID; return err }},
		{"submit together", func() error { _, err := c.SubmitAll(ctx, request); return err }},
		{"cancel", func() error {
			_, err := c.Cancel(ctx, id, "")
			if errors.Is(err, client.ErrUnavailable) {
				_, err = c.Cancel(ctx, id, "")
			}
			return err
		}},
		{"wait", func() error { _, err := c.Wait(ctx, id); return err }},
	} {
		if err := one.call(); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
	}
}

func TestAHealthyNodeIsUsedWhateverTheFirstOneDoes(t *testing.T) {
	t.Parallel()
	n := newTasks(t)
	healthy, _ := n.serve(t)
	closed := listen(t, func(net.Conn) {})
	wire := wiretest.New(t, "http://"+closed)
	wire.Cut()
	for name, first := range map[string]string{
		"refuses connections":           strings.TrimPrefix(wire.URL(), "http://"),
		"accepts and says nothing":      listen(t, func(net.Conn) {}),
		"ends connections":              listen(t, func(c net.Conn) { c.Close() }),
		"is no node":                    listen(t, func(c net.Conn) { _, _ = c.Write([]byte("220 mail ready\r\n")) }),
		"never answers a request":       serveAll(t, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
		"answers that it is not usable": serveAll(t, func(context.Context) error { return status.Error(codes.Unavailable, "the store is away") }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, client.Options{}, first, healthy)
			used(t.Context(), t, c)
		})
	}
}

func TestANodeThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(context.Context, *client.Client) error{
		"a call that is made again": func(ctx context.Context, c *client.Client) error { _, _, err := c.Limits(ctx); return err },
		"a submit":                  func(ctx context.Context, c *client.Client) error { _, err := c.Submit(ctx, "idle", 1); return err },
		"a call that is made once": func(ctx context.Context, c *client.Client) error {
			_, err := c.Cancel(ctx, task.ID{1}, "")
			if errors.Is(err, client.ErrUnavailable) {
				_, err = c.Cancel(ctx, task.ID{1}, "")
			}
			if errors.Is(err, client.ErrNotFound) {
				err = nil
			}
			return err
		},
	} {
		for _, timeout := range []time.Duration{7 * time.Second, time.Minute} {
			t.Run(name+" of "+timeout.String(), func(t *testing.T) {
				t.Parallel()
				n := newTasks(t)
				near, _ := n.serve(t)
				far, _ := n.serve(t)
				wire := wiretest.New(t, "http://"+near)
				c := open(t, client.Options{}, strings.TrimPrefix(wire.URL(), "http://"), far)
				used(t.Context(), t, c)
				wire.Stall()
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				if err := first(ctx, c); err != nil {
					t.Error(err)
				}
				used(t.Context(), t, c)
			})
		}
	}
}

// A call whose time is over before the node can be said to hang has the node probed, and the next call is at another one.
func TestANodeIsLeftAfterACallThatEndedAtItsDeadline(t *testing.T) {
	t.Parallel()
	n := newTasks(t)
	near, _ := n.serve(t)
	far, _ := n.serve(t)
	wire := wiretest.New(t, "http://"+near)
	c := open(t, client.Options{}, strings.TrimPrefix(wire.URL(), "http://"), far)
	used(t.Context(), t, c)
	wire.Stall()
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := c.Limits(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	used(t.Context(), t, c)
}

func TestANodeThatIsSlowIsNotLeft(t *testing.T) {
	t.Parallel()
	n := newTasks(t)
	near, _ := n.serve(t)
	far := listen(t, func(net.Conn) { t.Error("the other node is used") })
	c := open(t, client.Options{}, near, far)
	first, err := c.Submit(t.Context(), "full", 1)
	if err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { // the task ends when the test says so
		if _, err := c.Wait(t.Context(), first.ID); err != nil {
			t.Errorf("wait: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second) // its quarter is shorter than the wait
	defer cancel()
	if _, err := c.Wait(ctx, first.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait for a task that does not end: %v", err)
	}
	if _, err := c.Cancel(t.Context(), first.ID, ""); err != nil {
		t.Error(err)
	}
	waiting.Wait()
}

func TestASubmitThatWaitsAtASlowNodeIsSentOnce(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int32
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(s); method != taskenginev1connect.TaskServiceSubmitStreamProcedure {
			return s.SendMsg(&taskenginev1.VersionResponse{}) // without fields, it is an answer to any call
		}
		for s.RecvMsg(new(taskenginev1.SubmitStreamRequest)) == nil {
			sent.Add(1)
		}
		return nil
	}))
	var work sync.WaitGroup
	work.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		work.Wait()
	})
	c := open(t, client.Options{}, l.Addr().String(), listen(t, func(net.Conn) { t.Error("the other node is used") }))
	if _, _, err := c.Limits(t.Context()); err != nil { // connects, which takes no part of the time below
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	if _, err := c.Submit(ctx, "idle", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if got := sent.Load(); got != 1 {
		t.Errorf("the task was sent %d times", got)
	}
}
