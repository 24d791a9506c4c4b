package conform

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/plugins"
	"github.com/taskengine/taskengine/plugins/workers"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// realNode is a node in memory that runs the tasks of a type by the examined program.
type realNode struct {
	*engine.Engine
	kill func() error  // ends the program as kill -9 does, and has it started again
	held chan struct{} // closed by a check: the children that wait for that end
}

// The types whose tasks a node runs by itself: a child does as its payload says, and a task of addressee waits for the signal paid.
const (
	leafType      = "leaf"
	addresseeType = "addressee"
)

// ownHandlers returns the handlers of these types.
func ownHandlers(held chan struct{}) map[string]task.Handler {
	return map[string]task.Handler{
		leafType: task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			switch string(t.Payload) {
			case "hold":
				select {
				case <-held:
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			case "fail":
				return nil, errLeaf
			}
			return t.Payload, nil
		}),
		addresseeType: task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
			if w := t.Woken(); w.By == task.BySignal {
				return w.Signal.Data, nil
			}
			return nil, task.WaitFor([]string{"paid"}, time.Time{})
		}),
	}
}

var errLeaf = errors.New("this child is to fail")

// fails has tasks of leafType fail for good, so that no person has to decide about them.
func fails(f engine.Failure) engine.Decision {
	if f.Task.Type == leafType {
		return engine.Decision{To: task.Failed}
	}
	return engine.Decision{}
}

// withNode calls see with an engine in memory. The program runs its tasks of type typ, as a handler or as a worker. The
// context ends when the patience is over.
func (x *exam) withNode(typ string, see func(context.Context, realNode) error) (err error) {
	ctx, cancel := context.WithTimeout(x.ctx, 2*x.Patience) // for the start of the program and for its tasks
	defer cancel()
	handler, kill, stop, err := x.handlerFor(ctx, typ)
	if err != nil {
		return err
	}
	defer stop()
	store := memory.New()
	defer store.Close()
	held := make(chan struct{})
	handlers, types := ownHandlers(held), make(map[string]policy.Type)
	handlers[typ] = handler
	for t := range handlers {
		types[t] = policy.DefaultType()
	}
	few := policy.DefaultType()
	few.MaxBacklog.Max = 1
	types[fullType] = few
	e, err := engine.Open(ctx, engine.Config{Store: store, Policies: policy.Set{Slots: manySlots, Types: types}, Handlers: handlers, Retry: fails})
	if err != nil {
		return err
	}
	defer func() {
		at, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if closed := e.Close(at); err == nil {
			err = closed
		}
	}()
	return see(ctx, realNode{e, kill, held})
}

// handlerFor starts the program as a node would, and returns a handler that runs tasks with it. See realNode for kill.
func (x *exam) handlerFor(ctx context.Context, typ string) (handler task.Handler, kill func() error, stop func(), err error) {
	if x.Remote {
		return x.workerFor(typ)
	}
	host, err := plugins.Start(ctx, plugins.Config{
		Name: "examined", Command: x.Command, Dir: x.Dir, Env: x.Env, Types: []string{typ}, StartTimeout: x.Patience,
		MayRead: mayRead, MayWrite: mayWrite,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	kill = func() error { return syscall.Kill(host.Status().PID, syscall.SIGKILL) }
	return host, kill, func() {
		at, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = host.Close(at)
	}, nil
}

// workerFor serves workers, and starts the program as one.
func (x *exam) workerFor(typ string) (handler task.Handler, kill func() error, stop func(), err error) {
	pool, err := workers.Open(workers.Config{Name: "examined", Types: []string{typ}, Reconnect: -1, MayRead: mayRead, MayWrite: mayWrite})
	if err != nil {
		return nil, nil, nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(pool.MaxFrame()))
	workers.NewService(nil, nil, nil, pool).Register(server)
	var serves sync.WaitGroup
	serves.Go(func() { _ = server.Serve(listener) })
	var p *program
	begin := func() (err error) {
		if p, err = x.startWith("TASKENGINE_ADDRESS=" + listener.Addr().String()); err == nil {
			p.drainOutput()
		}
		return err
	}
	kill = func() error {
		p.kill()
		return begin()
	}
	err = begin()
	stop = func() {
		if p != nil {
			p.kill()
		}
		server.Stop()
		serves.Wait()
		at, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), time.Second)
		defer cancel()
		_ = pool.Close(at)
	}
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	return pool, kill, stop, nil
}

// done runs a task, which is to succeed, and returns its result.
func done(ctx context.Context, e realNode, r engine.Request) ([]byte, error) {
	receipts, err := e.Submit(ctx, r)
	if err != nil {
		return nil, err
	}
	return e.result(ctx, receipts[0].ID)
}

// result waits for a task, which is to succeed, and returns its result.
func (n realNode) result(ctx context.Context, id task.ID) ([]byte, error) {
	if err := n.WaitTasks(ctx, id); err != nil {
		return nil, fmt.Errorf("a node waited for its task: %w", err)
	}
	t, err := n.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if t.State != task.Done {
		return nil, fmt.Errorf("the task of a node is %v: %.300s", t.State, t.LastError)
	}
	return t.Result, nil
}

// seeChildren has tasks of a node add a child, and then the same again, which adds nothing because the key is taken.
func seeChildren(ctx context.Context, e realNode) error {
	for range 2 {
		result, err := done(ctx, e, engine.Request{Type: "children", Payload: []byte(childPayload)})
		if err != nil {
			return err
		}
		if string(result) != "spawned" {
			return fmt.Errorf("the result is %.100q", result)
		}
		children, _, err := e.List(ctx, storage.Filter{Types: []string{"mail"}}, task.ID{}, 10)
		if err != nil {
			return err
		}
		if len(children) != 1 {
			return fmt.Errorf("the node has %d children, wanted is one", len(children))
		}
		c, err := e.Get(ctx, children[0].ID)
		if err != nil {
			return err
		}
		if c.Key != "käy" || c.State != task.Submitted || string(c.Payload) != "to you" {
			return fmt.Errorf("the child is %v with the key %q and the payload %.100q", c.State, c.Key, c.Payload)
		}
	}
	return nil
}

// onANode returns a check of a program that runs tasks of type typ for a node.
func onANode(typ, name, asks string, see func(context.Context, realNode) error) check {
	return check{name: name, asks: asks, suite: typ, needs: []string{returnsCredits}, see: func(x *exam) error {
		err := x.withNode(typ, see)
		if errors.Is(err, context.DeadlineExceeded) && x.ctx.Err() == nil {
			return fmt.Errorf("it took longer than %v: %w", 2*x.Patience, err)
		}
		return err
	}}
}
