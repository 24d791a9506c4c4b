package life

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

var (
	flagSeed   = flag.Uint64("life.seed", 0, "the seed of the first life")
	flagCount  = flag.Uint64("life.count", seeds, "how many lives; each has the seed after that of the one before")
	flagRepeat = flag.Int("life.repeat", 1, "how often each life is led")
	flagMost   = flag.Int("life.failures", 3, "after how many failures no other life is begun")
	flagSpare  = flag.String("life.spare", open, "what does not happen, by the names in plan.spare, with commas between")
	flagAll    = flag.Bool("life.all", false, "print all that happened to the nodes of a life that failed")
)

func TestRandomLivesOfACluster(t *testing.T) {
	stop := watch()
	defer stop()
	failures, children := 0, 0
	for seed := *flagSeed; seed < *flagSeed+*flagCount && failures < *flagMost; seed++ {
		for range *flagRepeat {
			isGood, added := lead(t, seed)
			children += added
			if !isGood {
				failures++
				break
			}
		}
	}
	if failures == 0 && *flagCount >= 20 && children == 0 {
		t.Error("no task was added when another was to run again")
	}
}

// current is the seed of the present life.
var current, begun atomic.Uint64

// watch ends the process if a life does not end: virtual time does not advance while a goroutine
// waits for a mutex and the holder of the mutex sleeps.
func watch() (stop func()) {
	done := make(chan struct{})
	go func() {
		for was := uint64(0); ; {
			select {
			case <-done:
				return
			case <-time.After(time.Minute):
			}
			if now := begun.Load(); now == was {
				debug.SetTraceback("all")
				panic(fmt.Sprintf("the life of seed %d does not end", current.Load()))
			} else {
				was = now
			}
		}
	}()
	return func() { close(done) }
}

// lead runs one life. It reports whether it passed, and how many tasks were added when others were to run
// again.
func lead(t *testing.T, seed uint64) (isGood bool, children int) {
	current.Store(seed)
	begun.Add(1)
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "in the life of seed %d:\n", seed)
			panic(r)
		}
	}()
	var report string
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed) // the source of the engine's ids
		w := newWorld(seed)
		w.storm()
		w.settle()
		w.fillUp()
		w.end()
		children = w.children
		if len(w.failures) > 0 {
			report = w.report()
		}
	})
	if report != "" {
		t.Error(report)
	}
	return report == "", children
}

// world has all participants of one life.
type world struct {
	seed    uint64
	plan    plan
	begin   time.Time
	base    *memory.Store
	homes   *homes
	first   *local.Node
	ids     *task.IDs
	born    int           // how many nodes there have been
	newest  weather       // of the storm
	calm    atomic.Bool   // the faults have stopped
	over    chan struct{} // closed when nothing more is begun
	flights sync.WaitGroup
	callers sync.WaitGroup
	waiters sync.WaitGroup
	lates   atomic.Int64 // how many changes, and ends of leases, have not arrived

	children int // guarded by mu: tasks that were added when another was to run again
	requests int // by the goroutine of the life only

	mu           sync.Mutex
	rng          *rand.Rand            // guarded by mu
	nodes        []*node               // guarded by mu: nodes that are open, or will be
	stories      map[task.ID]*story    // guarded by mu
	order        []task.ID             // guarded by mu: of the stories
	owners       map[string]*story     // guarded by mu: by ordering key, the task that has begun and holds up the others
	live         int                   // guarded by mu: how many tasks have not ended
	incarnations map[task.ID]*node     // guarded by mu
	ended        map[task.ID]time.Time // guarded by mu: since when incarnations are not alive any more
	victims      map[task.ID]verbs     // guarded by mu: the writes that fail, by task
	cured        bool                  // guarded by mu: everything can be written
	awaited      map[task.ID]int       // guarded by mu: how many callers wait for a task
	unpaused     map[string]int        // guarded by mu
	failures     []failure             // guarded by saidMu
	saidMu       sync.Mutex
	said         []remark // guarded by saidMu: remarks of nodes
}

type failure struct {
	text string
	of   *story // nil if it is of no task
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 13))
	p := drawPlan(rng)
	p.spare(*flagSpare)
	w := &world{
		seed: seed, rng: rng, plan: p, begin: time.Now(), base: memory.New(), homes: newHomes(), first: local.New(),
		ids: task.NewIDs([32]byte{1, byte(seed), byte(seed >> 8)}), over: make(chan struct{}),
		stories: make(map[task.ID]*story), incarnations: make(map[task.ID]*node), ended: make(map[task.ID]time.Time),
		victims: make(map[task.ID]verbs), owners: make(map[string]*story), unpaused: make(map[string]int), awaited: make(map[task.ID]int),
	}
	return w
}

func (w *world) isOver() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}

// roll returns a number of 0 to n-1.
func (w *world) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) span(from, to time.Duration) time.Duration {
	return from + time.Duration(w.roll(int(to-from)))
}

func (w *world) since(t time.Time) string { return t.Sub(w.begin).String() }

// poisoned returns why a transaction cannot be written. The transaction calls it.
func (w *world) poisoned(touched []touch) error {
	if w.plan.poison == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cured {
		return nil
	}
	for _, x := range touched {
		if x.verb == w.plan.poison && len(w.victims) < 2 && !w.calm.Load() && w.rng.IntN(10) == 0 {
			w.victims[x.id] = x.verb
		}
		if w.victims[x.id] == x.verb {
			return errPoison
		}
	}
	return nil
}

// say records a log line of a node.
func (w *world) say(n *node, text string) {
	w.saidMu.Lock()
	defer w.saidMu.Unlock()
	w.said = append(w.said, remark{time.Now(), text, n.name})
}

// fail records a failure. It is called with w.mu held or by the goroutine of the life.
func (w *world) fail(format string, args ...any) { w.failAt(nil, format, args...) }

func (w *world) failAt(s *story, format string, args ...any) {
	w.saidMu.Lock()
	defer w.saidMu.Unlock()
	if len(w.failures) < 3 {
		w.failures = append(w.failures, failure{fmt.Sprintf("at %s: ", w.since(time.Now())) + fmt.Sprintf(format, args...), s})
	}
}

// report prints the failures with the history of their tasks.
func (w *world) report() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saidMu.Lock()
	defer w.saidMu.Unlock()
	var b strings.Builder
	p := &w.plan
	fmt.Fprintf(&b, "the life of seed %d: cluster %t, batcher %t, divided %t, no bus %t, slots %d, look ahead %d and %d, lease %s, poison %b\n",
		w.seed, p.cluster, p.batcher, p.divided, p.noBus, p.set.Slots, p.lookAhead, p.queueAhead, p.lease, p.poison)
	for _, f := range w.failures {
		fmt.Fprintf(&b, "  %s\n", f.text)
		if f.of != nil {
			w.tell(&b, f.of)
		}
	}
	return b.String()
}

// tell prints the history of a task.
func (w *world) tell(b *strings.Builder, s *story) {
	typ := w.plan.typeOf(s.row.Type)
	fmt.Fprintf(b, "    task %v, shard %d, type %s: %s, limits %v, concurrency %d, weight %d, timeout %+v, max %d, crashes %d, retention %v, relaxed %t\n", s.id, s.row.Shard,
		s.row.Type, typ.Delivery, typ.Limits, typ.Concurrency, typ.Weight, typ.Timeout, typ.Retry.Max, typ.MaxCrashes, typ.Retention.Done, typ.Relaxed)
	lines := append(slices.Clone(s.notes), w.homes.remarks(s.id.Shard())...)
	for _, st := range s.steps {
		by := "SQL"
		if st.by != nil {
			by = st.by.name
		}
		text := fmt.Sprintf("version %d is %s", st.row.Version, st.row.State)
		switch {
		case st.removed:
			text = "is removed"
		case st.row.State == task.Processing:
			text += fmt.Sprintf(", attempt %d, owner %v", st.row.Attempt, st.row.Owner)
		case st.row.Version > 1:
			why, _, _ := strings.Cut(st.row.LastError, "\n")
			text += fmt.Sprintf(", after %s: %s", st.change.Outcome, why)
		}
		if !st.row.NextEventAt.IsZero() {
			text += ", next " + w.since(st.row.NextEventAt)
		}
		if !st.row.ExpiresAt.IsZero() {
			text += ", expires " + w.since(st.row.ExpiresAt)
		}
		if !st.change.At.IsZero() {
			text += ", decided at " + w.since(st.change.At)
		}
		lines = append(lines, remark{st.at, text, by})
	}
	if v := w.victims[s.id]; v != 0 {
		lines = append(lines, remark{w.begin, "cannot be written", ""})
	}
	for _, r := range w.said {
		if *flagAll || strings.HasPrefix(r.what, "is ") || strings.HasPrefix(r.what, "loses") || strings.Contains(r.what, s.id.String()) || strings.Contains(r.what, s.row.Type+" is") {
			lines = append(lines, r)
		}
	}
	slices.SortStableFunc(lines, func(a, b remark) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		fmt.Fprintf(b, "      %-14s %-4s %s\n", w.since(l.at), l.by, l.what)
	}
}
