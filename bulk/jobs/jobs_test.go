package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// node is an engine with jobs, and with the types pay and mail, and with brief, of which done tasks are not kept.
type node struct {
	*engine.Engine
	jobs.Jobs
	t     *testing.T
	store storage.Store
	clock coord.Clock

	mu     sync.Mutex
	runs   map[string]int         // guarded by mu: attempts by payload
	answer func(*task.Task) error // guarded by mu
}

func start(t *testing.T, store storage.Store) *node {
	t.Helper()
	n := &node{t: t, store: store, runs: make(map[string]int), answer: func(t *task.Task) error {
		return task.Permanent(errors.New("bank " + t.Type + " answered 503"))
	}}
	n.open()
	t.Cleanup(n.close)
	return n
}

func (n *node) open() {
	n.t.Helper()
	work := task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
		n.mu.Lock()
		n.runs[string(t.Payload)]++
		answer := n.answer
		n.mu.Unlock()
		return nil, answer(t)
	})
	p := policy.DefaultType()
	own := jobs.TypePolicy()
	own.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{5 * time.Millisecond}}
	brief := policy.DefaultType()
	brief.Retention.Done = 0
	set := policy.Set{Types: map[string]policy.Type{"pay": p, "mail": p, "brief": brief, bulk.Type: own}}
	c := engine.Config{Store: n.store, Policies: set, Handlers: map[string]task.Handler{"pay": work, "mail": work, "brief": work, bulk.Type: jobs.Handler(jobs.Config{})}}
	c.Coordinator.Clock = n.clock
	var err error
	if n.Engine, err = engine.Open(context.Background(), c); err != nil {
		n.t.Fatal(err)
	}
	n.Jobs = jobs.Of(n.Engine)
}

func (n *node) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = n.Close(ctx)
}

func (n *node) set(answer func(*task.Task) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

// add adds tasks of a type, and waits until they have ended.
func (n *node) add(typ string, count int) (ids []task.ID) {
	n.t.Helper()
	for i := range count {
		r, err := n.Submit(n.t.Context(), task.Request{Type: typ, Payload: fmt.Appendf(nil, `{"n":%d,"type":%q}`, i, typ)})
		if err != nil {
			n.t.Fatal(err)
		}
		ids = append(ids, r[0].ID)
	}
	n.settled(ids...)
	return ids
}

// settled waits until no task is live.
func (n *node) settled(ids ...task.ID) {
	n.t.Helper()
	for _, id := range ids {
		n.await("the end of a task", func() bool {
			t, err := n.Engine.Get(n.t.Context(), id)
			if err != nil {
				n.t.Fatal(err)
			}
			return !t.State.Live()
		})
	}
}

// await waits until a condition holds.
func (n *node) await(what string, holds func() bool) {
	n.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 5*time.Minute {
			n.t.Fatalf("waited for five minutes: %s", what)
		}
	}
}

func (n *node) prepare(verb bulk.Verb, where string, set ...func(*bulk.Job)) bulk.Job {
	n.t.Helper()
	j := bulk.Job{Name: jobs.NewName(n.Now()), Verb: verb, Where: where, By: "anna"}
	for _, one := range set {
		one(&j)
	}
	if err := j.Prepare(n.Now()); err != nil {
		n.t.Fatal(err)
	}
	return j
}

// run starts a job and waits for its end.
func (n *node) run(verb bulk.Verb, where string, set ...func(*bulk.Job)) *jobs.Status {
	n.t.Helper()
	j := n.prepare(verb, where, set...)
	if _, err := n.Start(n.t.Context(), j); err != nil {
		n.t.Fatal(err)
	}
	return n.end(j.Name)
}

func (n *node) status(name string) *jobs.Status {
	n.t.Helper()
	s, err := n.Jobs.Get(n.t.Context(), name)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func (n *node) end(name string) *jobs.Status {
	n.t.Helper()
	return n.until(name, (*jobs.Status).HasEnded)
}

func (n *node) until(name string, holds func(*jobs.Status) bool) (s *jobs.Status) {
	n.t.Helper()
	n.await("a state of job "+name, func() bool {
		s = n.status(name)
		return holds(s)
	})
	return s
}

func (n *node) ran(payload string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runs[payload]
}

func TestAJobResumesTheTasksOfItsFilterOnce(t *testing.T) {
	t.Parallel()
	n := start(t, memory.New())
	pay, mail := n.add("pay", 2500), n.add("mail", 10)
	preview, err := n.Preview(t.Context(), new(n.prepare(bulk.Resume, "type=pay")))
	if err != nil || preview.Tasks != 2500 || !preview.Complete || len(preview.Samples) != 10 || preview.Samples[0].ID != pay[2499] ||
		len(preview.Kinds) != 1 || preview.Kinds[0].Tasks != 2500 || preview.States[task.Error] != 2500 {
		t.Fatalf("got %+v, %v", preview, err)
	}
	s := n.run(bulk.Resume, "type=pay error~503") // they fail again, and match again
	if s.Phase != jobs.Done || s.State.Changed != 2500 || s.State.Done() != 2500 || s.State.Unclear != 0 || s.State.Ended.IsZero() || s.Job.By != "anna" {
		t.Fatalf("got %+v", s)
	}
	n.settled(pay...)
	for i := range pay {
		if got := n.ran(fmt.Sprintf(`{"n":%d,"type":"pay"}`, i)); got != 2 {
			t.Fatalf("task %d has run %d times", i, got)
		}
	}
	for i := range mail {
		if got := n.ran(fmt.Sprintf(`{"n":%d,"type":"mail"}`, i)); got != 1 {
			t.Fatalf("mail %d has run %d times", i, got)
		}
	}
}

func TestAJobCancelsAndSaysWhichTasksItCouldNot(t *testing.T) {
	t.Parallel()
	n := start(t, memory.New())
	n.set(func(*task.Task) error { return nil })
	done := n.add("pay", 150)
	n.set(func(*task.Task) error { return task.Permanent(errors.New("no")) })
	failed := n.add("pay", 20)
	s := n.run(bulk.Cancel, "type=pay state=done,error", func(j *bulk.Job) { j.Reason = "by mistake" })
	if s.State.Changed != 20 || s.State.Refused != 150 || len(s.State.Reasons) != bulk.MaxRefused || !strings.Contains(s.State.Reasons[0].Reason, "cannot cancel a task that is done") {
		t.Fatalf("got %+v", s.State)
	}
	for _, id := range failed {
		if got, err := n.Engine.Get(t.Context(), id); err != nil || got.State != task.Cancelled || got.LastError != "by mistake" {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	if got, err := n.Engine.Get(t.Context(), done[0]); err != nil || got.State != task.Done {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestAJobKeepsItsRateAndObeysOrders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New())
		n.add("pay", 100)
		j := n.prepare(bulk.Cancel, "type=pay", func(j *bulk.Job) { j.Rate = 4 })
		if _, err := n.Start(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		s, err := n.Jobs.Pause(t.Context(), j.Name, "bert", "too fast")
		if err != nil || s.Phase != jobs.Paused {
			t.Fatalf("got %+v, %v", s, err)
		}
		time.Sleep(time.Minute)
		s = n.status(j.Name)
		if s.State.Changed < 18 || s.State.Changed > 24 || s.Phase != jobs.Paused {
			t.Fatalf("after 5 seconds and a pause %+v", s)
		}
		if _, err := n.Continue(t.Context(), j.Name, "bert", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := n.SetRate(t.Context(), j.Name, 40, "bert"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, err = n.Stop(t.Context(), j.Name, "bert", "enough")
		if err != nil {
			t.Fatal(err)
		}
		s = n.end(j.Name)
		if s.Phase != jobs.Stopped || s.State.Changed < 50 || s.State.Changed >= 100 || len(s.Job.History) != 5 || s.Job.History[1].What != "paused" || s.Job.History[1].Reason != "too fast" {
			t.Fatalf("got %+v", s)
		}
		count, err := n.Count(t.Context(), storage.Filter{States: []task.State{task.Cancelled}})
		if got := count[storage.StateType{State: task.Cancelled, Type: "pay"}]; err != nil || got != s.State.Changed {
			t.Fatalf("%d tasks are cancelled, of %d counted: %v", got, s.State.Changed, err)
		}
		if _, err := n.Jobs.Pause(t.Context(), j.Name, "bert", ""); !errors.Is(err, jobs.ErrEnded) || !errors.Is(err, engine.ErrNotAllowed) {
			t.Fatal(err)
		}
	})
}

// commits counts the changes that a store has committed at each moment.
type commits struct {
	*memory.Store

	mu sync.Mutex
	at map[time.Time]int // guarded by mu
}

func (c *commits) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	c.mu.Lock()
	c.at[time.Now()] += len(b.Swap)
	c.mu.Unlock()
	return c.Store.Commit(ctx, b)
}

// most returns the greatest number of changes at a moment, and forgets all.
func (c *commits) most() (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.at {
		most = max(most, n)
	}
	clear(c.at)
	return most
}

func TestAJobWithARateChangesFewTasksAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &commits{Store: memory.New(), at: make(map[time.Time]int)}
		n := start(t, c)
		n.add("pay", 600)
		for rate, want := range map[float64]int{4000: 20, 1000: 10} {
			c.most()
			begin := time.Now()
			s := n.run(bulk.Set, "type=pay state=error", func(j *bulk.Job) { j.Rate, j.Priority = rate, new(uint8(rate/1000)) })
			if took := time.Since(begin).Seconds(); s.State.Changed != 600 || took < 400/rate || took > 700/rate+1 {
				t.Errorf("at %v/s %d tasks are changed in %v s", rate, s.State.Changed, took)
			}
			if most := c.most(); most > want+2 { // and the task of the job
				t.Errorf("at %v/s %d changes are committed at once", rate, most)
			}
		}
	})
}

func TestJobsAreListedAndStartedOnce(t *testing.T) {
	t.Parallel()
	n := start(t, memory.New())
	n.add("pay", 1)
	var names []string
	for i := range 5 {
		j := n.prepare(bulk.Cancel, "type=pay", func(j *bulk.Job) { j.Name = fmt.Sprintf("job-%d", i) })
		for range 2 {
			if s, err := n.Start(t.Context(), j); err != nil || s.Job.Name != j.Name {
				t.Fatal(s, err)
			}
		}
		names = append(names, j.Name)
	}
	other := n.prepare(bulk.Resume, "type=pay", func(j *bulk.Job) { j.Name = names[0] })
	if _, err := n.Start(t.Context(), other); !errors.Is(err, jobs.ErrTaken) {
		t.Fatal(err)
	}
	all, err := n.Jobs.List(t.Context(), "", 2)
	if err != nil || len(all) != 2 || all[0].Job.Name != names[4] || all[1].Job.Name != names[3] {
		t.Fatal(all, err)
	}
	if all, err = n.Jobs.List(t.Context(), names[3], 10); err != nil || len(all) != 3 || all[0].Job.Name != names[2] {
		t.Fatal(all, err)
	}
	if _, err := n.Jobs.Get(t.Context(), "none"); !errors.Is(err, jobs.ErrUnknown) {
		t.Fatal(err)
	}
	if _, err := n.Jobs.Get(t.Context(), "a b"); !errors.Is(err, bulk.ErrInvalid) {
		t.Fatal(err)
	}
}

func TestAJobIsNotAboutPartsOfTheEngine(t *testing.T) {
	t.Parallel()
	n := start(t, memory.New())
	n.add("pay", 3)
	n.run(bulk.Cancel, "type=pay")
	s := n.run(bulk.Cancel, "type=* state=done,cancelled,waiting,processing")
	if s.State.Done() != 3 {
		t.Fatalf("got %+v", s.State)
	}
}

func TestAJobSetsValuesAndDeletes(t *testing.T) {
	t.Parallel()
	n := start(t, memory.New())
	ids := n.add("pay", 300)
	s := n.run(bulk.Set, "type=pay payload.n<100", func(j *bulk.Job) { j.Priority, j.Headers = new(uint8(1)), map[string]*string{"fixed": new("yes")} })
	if s.State.Changed != 100 || s.State.Done() != 100 {
		t.Fatalf("got %+v", s.State)
	}
	s = n.run(bulk.Resume, "header.fixed=yes priority=1")
	if s.State.Changed != 100 {
		t.Fatalf("got %+v", s.State)
	}
	n.settled(ids...)
	n.run(bulk.Cancel, "type=pay")
	s = n.run(bulk.Delete, "type=pay state=cancelled header.fixed=yes")
	if s.State.Changed != 100 || s.State.Done() != 100 {
		t.Fatalf("got %+v", s.State)
	}
	count, err := n.Count(t.Context(), storage.Filter{Types: []string{"pay"}})
	if got := count[storage.StateType{State: task.Cancelled, Type: "pay"}]; err != nil || got != 200 {
		t.Fatalf("%d tasks are left: %v", got, err)
	}
}
