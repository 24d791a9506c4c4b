//go:build !race

package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
)

var (
	historySeed  = flag.Uint64("histories.seed", 0, "the seed of the first random history of a cluster; 0 is a random one")
	historyCount = flag.Int("histories.count", 1, "how many random histories of a cluster are made with each coordination")
)

// Nodes are killed, stopped and cut off, their database and their coordinator crash, and limits are changed, all at
// random times. The notes of the handlers and the records of the database show that no limit was
// exceeded, no task was lost, and none was run twice at once.
func TestNoLimitOfTheClusterIsExceededWhateverHappens(t *testing.T) {
	t.Parallel()
	first := *historySeed
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	for _, driver := range []string{config.Database, config.Etcd, config.ZooKeeper} {
		for i := range uint64(*historyCount) {
			t.Run(fmt.Sprint(driver, " seed ", first+i), func(t *testing.T) {
				t.Parallel()
				live(t, driver, first+i)
			})
		}
	}
}

// live makes a history of nodes that coordinate by a driver, and looks at it.
func live(t *testing.T, driver string, seed uint64) {
	kinds := faultKinds
	if driver != config.Database {
		kinds = append(kinds, faultsElsewhere...)
	}
	p := newPlan(seed, kinds)
	f := newFleet(t, driver)
	f.carryOut(t, p)
	f.settle(t)
	h := f.history(t)
	h.summarize(t, p)
	for _, wrong := range h.check() {
		t.Error(wrong)
	}
}

// carryOut carries out a plan.
func (f *fleet) carryOut(t *testing.T, p plan) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	watching, stopWatching := context.WithCancel(ctx)
	var watches, load sync.WaitGroup
	for i := range planNodes {
		watches.Go(func() { f.watch(watching, i) })
	}
	watches.Go(func() { f.watchMachine(watching) })
	defer watches.Wait()
	defer stopWatching()
	begin := time.Now()
	load.Go(func() { takeSteps(ctx, t, begin, p.bursts, f.submit) })
	load.Go(func() { takeSteps(ctx, t, begin, p.changes, f.set) })
	defer load.Wait()
	for _, next := range p.faults {
		rest(ctx, time.Until(begin.Add(next.at)))
		f.do(t, next.do)
	}
	f.awaitReady(t)
	load.Wait()
	for done := false; !done; rest(ctx, 20*time.Millisecond) {
		var err error
		if done, err = f.states(ctx); err != nil {
			f.explain(t)
			t.Fatalf("not all tasks end: %v", err)
		}
	}
}

// takeSteps takes steps, each at its time.
func takeSteps[T any](ctx context.Context, t *testing.T, begin time.Time, steps []step[T], do func(context.Context, T) error) {
	for _, next := range steps {
		rest(ctx, time.Until(begin.Add(next.at)))
		if err := do(ctx, next.do); err != nil {
			t.Error(err)
		}
	}
}

// explain logs the reasons why tasks wait.
func (f *fleet) explain(t *testing.T) {
	t.Helper()
	h := &harassment{n: f.nodes}
	h.explain(t)
}

// settle stops the nodes.
func (f *fleet) settle(t *testing.T) {
	t.Helper()
	for _, n := range f.nodes {
		n.signal(t, syscall.SIGTERM)
	}
	for _, n := range f.nodes {
		if code := n.exit(t); code != exitOK {
			t.Errorf("a node ended with %d", code)
		}
	}
}

// summarize logs the parts of a history, and checks that it is one.
func (h *history) summarize(t *testing.T, p plan) {
	t.Helper()
	faults := make(map[string]int)
	for _, f := range p.faults {
		if !f.do.ends {
			faults[f.do.kind]++
		}
	}
	lapsed, excused, stalls := 0, 0, 0
	for _, a := range h.attempts {
		if at, _ := h.lapse(a); at <= a.last {
			lapsed++
		}
		if h.counted(a) < a.last {
			excused++
		}
	}
	for _, s := range h.stops {
		if s.node == "" {
			stalls++
		}
	}
	t.Logf("faults %v; %d tasks, %d attempts, at most %d at once; %d outlived their permits on a node that stood still, %d in all; %d changes of permits, %d of limits, %d pauses, %d draws; the machine stood still %d times",
		faults, len(h.tasks), len(h.attempts), h.peak("total"), excused, lapsed, len(h.changes), len(h.maxima)-5, len(h.pauses), len(h.draws), stalls)
	if h.peak("total") < 2 || len(h.draws) == 0 && !h.isUnseen {
		t.Error("nothing ran at once: the history shows nothing")
	}
}
