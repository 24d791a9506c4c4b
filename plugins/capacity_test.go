//go:build linux || darwin

package plugins

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// heard records the capacities that a host reported.
type heard struct {
	mu  sync.Mutex
	all []task.Capacity // guarded by mu
}

func (c *heard) changed(to task.Capacity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, to)
}

func (c *heard) get() task.Capacity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[len(c.all)-1]
}

func (c *heard) await(t *testing.T, slots, more int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Errorf("want %d slots and %d more, have %+v", slots, more, c.get())
		}
	}()
	eventually(t, "the capacity", func() bool { return c.get() == task.Capacity{Slots: slots, More: more} })
}

func TestAHostReportsItsCapacityAndGrowsWithDemand(t *testing.T) {
	c := self(t, "handlers")
	c.Slots, c.MinProcesses, c.MaxProcesses, c.Idle = 2, 1, 3, 50*time.Millisecond
	h := start(t, c)
	var has heard
	u := h.Use(has.changed)
	if got := has.get(); got != (task.Capacity{Slots: 2, More: 4}) {
		t.Fatalf("at first it has %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running []<-chan result
	for n := range 2 {
		running = append(running, handle(ctx, h, numbered("wait", "", n)))
	}
	eventually(t, "they run", func() bool { return h.Status().Running == 2 })
	u.Want(3) // two processes' worth
	has.await(t, 6, 0)
	if st := h.Status(); st.Waiting != 0 || len(st.Processes) != 3 {
		t.Errorf("%+v", st)
	}
	for n := range 3 {
		running = append(running, handle(ctx, h, numbered("wait", "", 2+n)))
	}
	eventually(t, "they run", func() bool { return h.Status().Running == 5 })
	u.Want(0)
	cancel()
	for _, r := range running {
		<-r
	}
	has.await(t, 2, 4)
	u.End()
}

func TestAHostWithoutProcessesStartsOneForATaskThatWaits(t *testing.T) {
	c := self(t, "handlers")
	c.Slots, c.MinProcesses, c.Idle = 4, -1, time.Millisecond
	h := start(t, c)
	var has heard
	u := h.Use(has.changed)
	has.await(t, 0, 4)
	u.Want(1)
	has.await(t, 4, 0)
	u.Want(0)
	has.await(t, 0, 4)
}

func TestAHostWithAProcessForEachTaskHasAsManySlotsAsAreReady(t *testing.T) {
	c := self(t, "handlers")
	c.PerTask, c.MinProcesses, c.MaxProcesses = true, 1, 3
	h := start(t, c)
	var has heard
	u := h.Use(has.changed)
	has.await(t, 1, 2)
	file := filepath.Join(t.TempDir(), "go on")
	first := handle(t.Context(), h, numbered("until", file, 1))
	has.await(t, 2, 1) // it runs, and the next process is ready
	u.Want(1)
	has.await(t, 3, 0)
	u.Want(0)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-first; r.err != nil {
		t.Error(r.err)
	}
}

func TestAHostThatIsDownHasNoSlotsAndSaysWhy(t *testing.T) {
	c := self(t, "handlers")
	c.Slots, c.Backoff = 2, 200*time.Millisecond
	h := start(t, c)
	var has heard
	u := h.Use(has.changed)
	defer u.End()
	if err := syscall.Kill(h.Status().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is up again", func() bool { return h.Status().Starts == 2 })
	has.await(t, 2, 0)
	has.mu.Lock()
	defer has.mu.Unlock()
	if !slices.ContainsFunc(has.all, func(c task.Capacity) bool {
		return c.Slots == 0 && c.More == 2 && strings.Contains(c.Down, "killed")
	}) {
		t.Errorf("it never said that it was down: %+v", has.all)
	}
}

// Tasks in quarantine that wait for a process of their own are booked as others are, as many as may have one at once.
func TestTasksInQuarantineTakeNoSlotOfOthers(t *testing.T) {
	c := self(t, "handlers")
	c.Slots, c.Backoff = 2, time.Millisecond
	h := start(t, c)
	var has heard
	u := h.Use(has.changed)
	defer u.End()
	pair := []<-chan result{handle(t.Context(), h, numbered("wait", "", 1)), handle(t.Context(), h, numbered("wait", "", 2))}
	eventually(t, "they run", func() bool { return h.Status().Running == 2 })
	if err := syscall.Kill(h.Status().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, r := range pair {
		<-r
	}
	has.await(t, 2, 0)
	ctx, cancel := context.WithCancel(t.Context())
	alone := handle(ctx, h, numbered("wait", "", 1))
	has.await(t, 3, 0)
	cancel()
	<-alone
	has.await(t, 2, 0)
}
