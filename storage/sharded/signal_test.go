package sharded_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

// letters is an engine on two databases. Tasks of the type reader, half of them with a key, wait for signals, and note each. Tasks of
// the type writer run some times, and send a signal to each reader each time. Every second one does so in a transaction.
type letters struct {
	*testing.T
	*engine.Engine
	store   *faults
	a, b    placement.Database
	set     policy.Set
	readers []task.ID
	runs    int    // of each writer
	leaves  string // the type of the tasks at the bottom of trees; tree if it is empty

	mu    sync.Mutex
	fails func() bool // guarded by mu: whether a handler fails; nil for never
}

func startLetters(t *testing.T) *letters {
	l := &letters{T: t, a: database(t, "a"), b: database(t, "b"), runs: 4}
	l.store = openHalves(t, l.a, l.b, func() { l.kill(5 * time.Minute) })
	typ := policy.DefaultType()
	typ.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Millisecond, Factor: 1, Max: time.Millisecond}}
	flow := runner.TypePolicy()
	flow.Retry = typ.Retry
	l.set = policy.Set{Slots: 32, Types: map[string]policy.Type{"reader": typ, "writer": typ, "tree": typ, "still": typ, "last": typ, "undo": typ, workflow.Type: flow}}
	l.start()
	return l
}

func (l *letters) start() {
	l.Helper()
	var e *engine.Engine // of the handlers that it runs, which may be called before it is returned
	opened := make(chan struct{})
	write := func(ctx context.Context, t *task.Task) ([]byte, error) {
		<-opened
		return l.write(ctx, e, t)
	}
	e, err := engine.Open(l.Context(), engine.Config{
		Store: l.store, Log: slog.New(slog.DiscardHandler), Policies: l.set,
		Handlers: map[string]task.Handler{"reader": task.HandlerFunc(l.read), "writer": task.HandlerFunc(write), "tree": task.HandlerFunc(l.grow), "last": task.HandlerFunc(l.last), "undo": task.HandlerFunc(l.undo), workflow.Type: runner.Handler},
	})
	if err != nil {
		l.Fatal(err)
	}
	l.Engine = e
	close(opened)
}

// kill closes the engine, which gives up running attempts after some time.
func (l *letters) kill(after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	_ = l.Close(ctx)
}

func (l *letters) failsNow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fails != nil && l.fails()
}

// read keeps its letters in its checkpoint. It ends with the letter "end".
func (l *letters) read(_ context.Context, t *task.Task) ([]byte, error) {
	got := slices.Clone(t.Checkpoint())
	if w := t.Woken(); w.By == task.BySignal {
		if string(w.Signal.Data) == "end" {
			return got, nil
		}
		got = append(append(got, w.Signal.Data...), ' ')
	}
	if l.failsNow() {
		return nil, errFault
	}
	return nil, task.WaitFor([]string{"letter"}, time.Time{}, task.WithCheckpoint(got))
}

func (l *letters) write(ctx context.Context, e *engine.Engine, t *task.Task) ([]byte, error) {
	number, _ := strconv.Atoi(string(t.Payload))
	run, _ := strconv.Atoi(string(t.Checkpoint()))
	var signals []engine.Signal
	for i, id := range l.readers {
		signals = append(signals, letterTo(i, id, fmt.Sprintf("%d-%d", number, run)))
	}
	var again time.Time
	checkpoint := task.WithCheckpoint(strconv.AppendInt(nil, int64(run+1), 10))
	if run+1 < l.runs {
		again = e.Now()
	}
	if l.failsNow() {
		return nil, errFault
	}
	if number%2 == 0 {
		return nil, task.Again(again, task.WithSignals(signals...), checkpoint)
	}
	return nil, l.store.UpdateIn(ctx, l.store.DatabaseOf(t.ID.Shard()), func(tx storage.Tx) error {
		if err := e.SignalTx(ctx, tx, signals...); err != nil {
			return err
		}
		if l.failsNow() {
			return errFault
		}
		if again.IsZero() {
			return engine.FinishTx(ctx, tx, nil)
		}
		return engine.AgainTx(ctx, tx, nil, again, checkpoint)
	})
}

// letterTo returns a signal to a reader: to its key if it has one.
func letterTo(i int, id task.ID, data string) engine.Signal {
	s := engine.Signal{Name: "letter", Keep: true, Data: []byte(data)}
	if i%2 == 0 {
		s.To = id
	} else {
		s.Type, s.Key = "reader", strconv.Itoa(i)
	}
	return s
}

func (l *letters) addReaders(n int) {
	l.Helper()
	for i := range n {
		r := engine.Request{Type: "reader"}
		if i%2 == 1 {
			r.Key = strconv.Itoa(i)
		}
		got, err := l.Submit(l.Context(), r)
		if err != nil {
			l.Fatal(err)
		}
		l.readers = append(l.readers, got[0].ID)
	}
}

func (l *letters) addWriters(n int) {
	l.Helper()
	var reqs []engine.Request
	for i := range n {
		reqs = append(reqs, engine.Request{Type: "writer", Payload: strconv.AppendInt(nil, int64(i), 10)})
	}
	if _, err := l.Submit(l.Context(), reqs...); err != nil {
		l.Fatal(err)
	}
}

// live counts the rows of a type that have not ended.
func (l *letters) live(typ string) (n int64) {
	l.Helper()
	all, err := l.store.Count(l.Context(), storage.Filter{Types: []string{typ}})
	if err != nil {
		l.Fatal(err)
	}
	for of, rows := range all {
		if of.State.Live() || of.State == task.Error {
			n += rows
		}
	}
	return n
}

func (l *letters) await(what string, is func() bool) {
	l.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			page, _ := l.store.List(l.Context(), storage.ListQuery{Filter: storage.Filter{Types: []string{"taskengine.relay"}}, Limit: 5, Scan: 1000})
			rows := page.Tasks
			l.Fatalf("%s: not within five minutes; %v", what, rows)
		}
	}
}

// check waits until nothing is on its way, ends the readers, and examines their letters from a number of writers.
func (l *letters) check(writers int) {
	l.Helper()
	l.await("all are sent", func() bool { return l.live("writer") == 0 && l.live("taskengine.relay") == 0 })
	var want []string
	for i := range writers {
		for run := range l.runs {
			want = append(want, fmt.Sprintf("%d-%d", i, run))
		}
	}
	slices.Sort(want)
	for i, id := range l.readers {
		l.await("a reader has read all", func() bool {
			t, err := l.Get(l.Context(), id)
			return err == nil && t.State == task.Waiting && t.Awaits() != nil
		})
		if outcome, _, err := l.Signal(l.Context(), letterTo(i, id, "end")); err != nil || outcome != engine.SignalWoke {
			l.Errorf("the end of reader %d: %v, %v", i, outcome, err)
		}
		l.await("the reader is done", func() bool {
			t, err := l.Get(l.Context(), id)
			return err == nil && t.State == task.Done
		})
		t, err := l.Get(l.Context(), id)
		if err != nil {
			l.Fatal(err)
		}
		order := make(map[string]string) // of each writer, the letter before
		got := strings.Fields(string(t.Result))
		for _, one := range got {
			writer, _, _ := strings.Cut(one, "-")
			if one <= order[writer] {
				l.Errorf("reader %d has got %s after %s", i, one, order[writer])
			}
			order[writer] = one
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			l.Errorf("reader %d has got %d letters, of %d: %v", i, len(got), len(want), got)
		}
	}
}

func TestEverySignalIsTakenOnceThoughShardsAreMoved(t *testing.T) { signalsArrive(t, true) }

func signalsArrive(t *testing.T, moves bool) {
	l := startLetters(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng, left := rand.New(rand.NewPCG(seed, 1)), 300
	fails := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || rng.IntN(5) > 0 {
			return false
		}
		left--
		return true
	}
	roll := func(int) error {
		if !fails() {
			return nil
		}
		if rand.IntN(2) == 0 {
			return storage.ErrUnavailable // the task goes on
		}
		return errFault // the attempt has failed
	}
	l.addReaders(8)
	l.mu.Lock()
	l.fails = fails
	l.mu.Unlock()
	l.store.set(roll, roll)
	l.addWriters(16)
	from, to := l.a, l.b
	for n := 0; moves && n < 4; n++ {
		if err := placement.Move(t.Context(), from, to, shards(0, 60), nil); err != nil {
			t.Error(err)
		}
		from, to = to, from
	}
	for range 2 {
		l.kill(10 * time.Millisecond)
		l.start() // of another incarnation
	}
	l.await("the faults are over", func() bool { mu.Lock(); defer mu.Unlock(); return left < 100 || l.live("writer") == 0 })
	l.check(16)
}

// While a database is away, the senders in the other one are done, and their signals wait and arrive.
func TestSignalsToADatabaseThatIsAwayWait(t *testing.T) {
	l := startLetters(t)
	l.runs = 1
	l.addReaders(12)
	far := slices.IndexFunc(l.readers, func(id task.ID) bool { return l.store.DatabaseOf(id.Shard()) == 1 })
	if far < 0 {
		t.Fatal("no reader is in the second database")
	}
	l.await("the readers wait", func() bool {
		return !slices.ContainsFunc(l.readers, func(id task.ID) bool {
			r, err := l.Get(t.Context(), id)
			return err != nil || r.Awaits() == nil
		})
	})
	l.store.set(func(database int) error {
		if database == 1 {
			return storage.ErrUnavailable
		}
		return nil
	}, nil)
	if _, err := l.Submit(t.Context(), engine.Request{Type: "writer", ID: inShard(1), Payload: []byte("0")}); err != nil {
		t.Fatal(err)
	}
	l.await("the sender is done, and what is far waits", func() bool {
		page, err := l.store.List(t.Context(), storage.ListQuery{Filter: storage.Filter{Types: []string{"taskengine.relay"}, States: []task.State{task.Processing}}, Limit: 100, Scan: 1000})
		rows := page.Tasks
		return err == nil && l.live("writer") == 0 && len(rows) > 0 &&
			slices.ContainsFunc(rows, func(r *task.Task) bool { return strings.Contains(r.Progress().Message, "does not answer") })
	})
	l.store.set(nil, nil)
	l.check(1)
}
