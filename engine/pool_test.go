package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// testPool is a pool with the handler fn. Each task waits for a while in the pool before it
// begins.
type testPool struct {
	name string
	wait time.Duration
	fn   task.HandlerFunc

	mu      sync.Mutex
	has     task.Capacity       // guarded by mu
	changed func(task.Capacity) // guarded by mu
	wanted  []int               // guarded by mu: arguments of the calls of Want
	ended   bool                // guarded by mu
}

func (p *testPool) Name() string { return p.name }

func (p *testPool) Use(changed func(task.Capacity)) task.PoolUse {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = changed
	changed(p.has)
	return p
}

func (p *testPool) Want(tasks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = append(p.wanted, tasks)
}

func (p *testPool) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

func (p *testPool) resize(c task.Capacity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.has = c
	p.changed(c)
}

func (p *testPool) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	if p.wait > 0 {
		select {
		case <-time.After(p.wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the task still waited: %w", task.ErrUnavailable, context.Cause(ctx))
		}
	}
	if _, err := task.ReporterOf(ctx).(task.Beginner).Begin(); err != nil {
		return nil, fmt.Errorf("%w: %w", task.ErrUnavailable, err)
	}
	return p.fn(ctx, t)
}

func atMostOnce(name string, run time.Duration) policy.Set {
	return one(name, func(p *policy.Type) {
		p.Delivery, p.Timeout.Run = policy.AtMostOnce, run
	})
}

// Tasks wait for a slot of a handler in the engine: ready, not counted as an attempt, in the
// order of their rank, and without a slot that other tasks need.
func TestTasksWaitInTheEngineForTheSlotsOfTheirHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var order journal
		p := &testPool{name: "py", has: task.Capacity{Slots: 2}, fn: order.work(10 * time.Second)}
		set := atMostOnce("hash", time.Minute)
		set.Types["sum"], set.Types["mail"] = set.Types["hash"], policy.DefaultType()
		n := start(t, set, map[string]task.Handler{
			"hash": p, "sum": p,
			"mail": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		})
		var ids []task.ID
		for i := range 50 {
			ids = append(ids, n.submit(engine.Request{Type: []string{"hash", "sum"}[i%2]}))
		}
		first := uint8(0)
		urgent := n.submit(engine.Request{Type: "sum", Priority: &first, Payload: []byte("urgent")})
		synctest.Wait()
		if s := n.Stats(); s.Running != 2 {
			t.Fatalf("%d tasks have a slot, of a pool with 2", s.Running)
		}
		for _, id := range ids[2:] {
			if row := n.expect(id, task.Submitted); row.Attempt != 0 {
				t.Fatalf("a task that waits has attempt %d", row.Attempt)
			}
		}
		n.end(n.submit(engine.Request{Type: "mail"})) // tasks of a full pool block no other tasks
		_, why, err := n.Why(context.Background(), urgent)
		if err != nil || len(why) == 0 || why[0].Limit != "handlers.py.slots" || why[0].Used != 2 || why[0].Max != 2 {
			t.Errorf("why: %+v, %v", why, err)
		}
		for _, id := range append(ids, urgent) {
			if row := n.end(id); row.State != task.Done || row.Attempt != 1 {
				t.Errorf("a task is %v after attempt %d: %s", row.State, row.Attempt, row.LastError)
			}
		}
		// The first two end at the same moment, so the third and the fourth start together.
		if next := order.payloads()[2:4]; order.most > 2 || !slices.Contains(next, "urgent") {
			t.Errorf("%d ran at once, and the next two were %q", order.most, next)
		}
	})
}

func TestAPoolLearnsHowManyTasksWaitForIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := &testPool{name: "py", has: task.Capacity{More: 10}, fn: func(context.Context, *task.Task) ([]byte, error) {
			<-gate
			return nil, nil
		}}
		n := start(t, one("hash", nil), map[string]task.Handler{"hash": p})
		ids := []task.ID{n.submit(engine.Request{Type: "hash"}), n.submit(engine.Request{Type: "hash"}), n.submit(engine.Request{Type: "hash"})}
		synctest.Wait()
		heard := func(want int) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if got := p.wanted[len(p.wanted)-1]; got != want {
				t.Fatalf("the pool learned of %v tasks, want %d in the end", p.wanted, want)
			}
		}
		heard(3)
		p.resize(task.Capacity{Slots: 2, More: 8})
		heard(1)
		p.resize(task.Capacity{Slots: 4, More: 6})
		heard(0)
		close(gate)
		for _, id := range ids {
			n.end(id)
		}
		n.close()
		if !p.ended {
			t.Error("the engine was closed and uses the pool still")
		}
	})
}

func TestWhyATaskOfAHandlerThatIsDownDoesNotRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := &testPool{name: "py", has: task.Capacity{More: 1, Down: "it died (exit status 3)"}}
		p.fn = func(context.Context, *task.Task) ([]byte, error) { return nil, nil }
		n := start(t, one("hash", nil), map[string]task.Handler{"hash": p})
		id := n.submit(engine.Request{Type: "hash"})
		synctest.Wait()
		_, why, err := n.Why(context.Background(), id)
		if err != nil || len(why) != 1 || why[0].Code != engine.CodeHandler || why[0].Text != "handler py is down: it died (exit status 3)" {
			t.Errorf("why: %+v, %v", why, err)
		}
		p.resize(task.Capacity{Slots: 1})
		n.end(id)
	})
}

// The timeout of an attempt runs from when the handler has the task.
func TestAnAttemptBeginsWhenItsPoolBegins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := &testPool{name: "py", has: task.Capacity{Slots: 9}, wait: 8 * time.Second}
		p.fn = func(ctx context.Context, _ *task.Task) ([]byte, error) {
			deadline, _ := ctx.Deadline()
			select {
			case <-time.After(9 * time.Second):
				return []byte(time.Until(deadline).String()), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		n := start(t, atMostOnce("hash", 10*time.Second), map[string]task.Handler{"hash": p})
		id := n.submit(engine.Request{Type: "hash"})
		time.Sleep(time.Second)
		if _, why, _ := n.Why(context.Background(), id); why[0].Code != engine.CodeStarting || !strings.Contains(why[0].Text, "waits for a process of handler py") {
			t.Errorf("before it has begun: %+v", why)
		}
		time.Sleep(8 * time.Second)
		if _, why, _ := n.Why(context.Background(), id); why[0].Code != engine.CodeRunning {
			t.Errorf("when it has begun: %+v", why)
		}
		if row := n.end(id); row.State != task.Done || string(row.Result) != "1s" {
			t.Errorf("it is %v with %q left: %s", row.State, row.Result, row.LastError)
		}
	})
}

func TestATaskThatItsPoolHasNotBegunIsHandedBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := &testPool{name: "py", has: task.Capacity{Slots: 9}, wait: time.Hour}
		n := start(t, atMostOnce("hash", 10*time.Second), map[string]task.Handler{"hash": p})
		id := n.submit(engine.Request{Type: "hash"})
		time.Sleep(time.Minute)
		if row := n.get(id); !row.State.Live() || row.Attempt > 1 {
			t.Errorf("after its run timeout it is %v, attempt %d: %s", row.State, row.Attempt, row.LastError)
		}
		hurried, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.Close(hurried); err != nil {
			t.Fatal(err)
		}
		if row := n.get(id); row.State != task.Waiting && row.State != task.Submitted {
			t.Errorf("after the node was closed it is %v: %s", row.State, row.LastError)
		}
		p.wait, p.fn = 0, func(context.Context, *task.Task) ([]byte, error) { return nil, nil }
		n.open()
		if row := n.end(id); row.State != task.Done || row.Attempt != 1 {
			t.Errorf("in the end it is %v after attempt %d: %s", row.State, row.Attempt, row.LastError)
		}
	})
}
