package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// lossy is a store that can lose or delay its answers. It commits the transaction all the same.
type lossy struct {
	storage.Store

	mu   sync.Mutex
	lose func(inserted, swapped int) bool          // guarded by mu: whether the answer is lost; nil for no
	late func(inserted, swapped int) time.Duration // guarded by mu: how late the answer is; nil for not
}

// answer sets which answers are lost and which are late.
func (s *lossy) answer(lose func(inserted, swapped int) bool, late func(inserted, swapped int) time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose, s.late = lose, late
}

func (s *lossy) Update(ctx context.Context, fn func(storage.Tx) error) error {
	seen := new(countingTx)
	err := s.Store.Update(ctx, func(tx storage.Tx) error {
		seen.Tx = tx
		return fn(seen)
	})
	s.mu.Lock()
	lose := s.lose != nil && s.lose(seen.inserted, seen.swapped)
	wait := time.Duration(0)
	if s.late != nil {
		wait = s.late(seen.inserted, seen.swapped)
	}
	s.mu.Unlock()
	time.Sleep(wait)
	if err == nil && lose {
		return errNo
	}
	return err
}

// Commit implements [storage.Store].
func (s *lossy) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, s.Update, b)
}

// countingTx counts the rows that were really inserted and swapped.
type countingTx struct {
	storage.Tx
	inserted, swapped int
}

func (x *countingTx) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	out, err := x.Tx.Insert(ctx, ts...)
	for _, in := range out {
		if in.Created() {
			x.inserted++
		}
	}
	return out, err
}

func (x *countingTx) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	out, err := x.Tx.Swap(ctx, cs...)
	for _, t := range out {
		if t != nil {
			x.swapped++
		}
	}
	return out, err
}

// startLossy opens an engine on a store that can lose its answers.
func startLossy(t *testing.T, set policy.Set, handlers map[string]task.Handler) (*node, *lossy) {
	t.Helper()
	s := &lossy{Store: memory.New()}
	n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: set, Handlers: handlers}}
	n.open()
	t.Cleanup(n.close)
	return n, s
}

func TestATaskWithALostAnswerRunsThoughItIsAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		n, s := startLossy(t, one("x", func(p *policy.Type) { p.Delivery = policy.AtMostOnce }), handle("x", j.work(0)))
		id := task.ID{1}
		s.answer(func(inserted, _ int) bool { return inserted > 0 }, nil)
		if _, err := n.Submit(t.Context(), engine.Request{ID: id, Type: "x"}); err == nil {
			t.Fatal("the answer was not lost")
		}
		s.answer(nil, nil)
		receipts, err := n.Submit(t.Context(), engine.Request{ID: id, Type: "x"})
		if err != nil || receipts[0].ID != id {
			t.Fatalf("got %v, %v", receipts, err)
		}
		time.Sleep(10 * time.Second)
		if n.expect(id, task.Done); len(j.payloads()) != 1 {
			t.Errorf("it ran %d times", len(j.payloads()))
		}
	})
}

// rowless is a store that cannot read rows one by one during an outage.
type rowless struct {
	storage.Store
	out atomic.Bool
}

func (s *rowless) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if s.out.Load() {
		return nil, errNo
	}
	return s.Store.Get(ctx, id)
}

func TestAnUncertainTaskRunsSoonAfterALongOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rows := &rowless{Store: memory.New()}
		s := &lossy{Store: rows}
		n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: one("x", nil), Handlers: handle("x", new(journal).work(0))}}
		n.open()
		t.Cleanup(n.close)
		rows.out.Store(true)
		s.answer(func(inserted, _ int) bool { return inserted > 0 }, nil)
		id := task.ID{1}
		if _, err := n.Submit(t.Context(), engine.Request{ID: id, Type: "x"}); err == nil {
			t.Fatal("the answer was not lost")
		}
		time.Sleep(3 * time.Hour)
		rows.out.Store(false)
		time.Sleep(30 * time.Second)
		n.expect(id, task.Done)
	})
}

// down is a store that may be unreachable.
type down struct {
	storage.Store
	out atomic.Bool
}

func (s *down) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if s.out.Load() {
		return nil, errNo
	}
	return s.Store.Get(ctx, id)
}

func (s *down) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if s.out.Load() {
		return errNo
	}
	return s.Store.Update(ctx, fn)
}

func TestUncertainTasksAreReadWhenTheStoreCanBeWrittenAgain(t *testing.T) {
	for i := range byte(3) { // the node reads them each 15 seconds
		inBubble(t, func(t *testing.T) {
			rows := &down{Store: memory.New()}
			s := &lossy{Store: rows}
			n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: one("x", nil), Handlers: handle("x", new(journal).work(0))}}
			n.open()
			t.Cleanup(n.close)
			s.answer(func(inserted, _ int) bool { return inserted > 0 }, nil)
			id := task.ID{1}
			if _, err := n.Submit(t.Context(), engine.Request{ID: id, Type: "x"}); err == nil {
				t.Fatal("the answer was not lost")
			}
			s.answer(nil, nil)
			rows.out.Store(true)
			if _, err := n.Submit(t.Context(), engine.Request{ID: task.ID{2}, Type: "x"}); err == nil {
				t.Fatal("a store that is down has taken a task")
			}
			time.Sleep(10*time.Minute + time.Duration(i)*5*time.Second)
			rows.out.Store(false)
			n.submit(engine.Request{Type: "x"})
			time.Sleep(4 * time.Second)
			n.expect(id, task.Done)
		})
	}
}

// hiding is a store that does not show the row of one task, and reads may be slow.
type hiding struct {
	storage.Store
	id   task.ID
	slow atomic.Int64 // how long a read takes, in nanoseconds
}

func (s *hiding) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if time.Sleep(time.Duration(s.slow.Load())); id == s.id {
		return nil, task.ErrNotFound
	}
	return s.Store.Get(ctx, id)
}

func TestAnUncertainTaskRunsSoonThoughAnotherOneRemainsUncertain(t *testing.T) {
	for name, c := range map[string]struct{ slow, within time.Duration }{
		"and reads are fast": {0, 4 * time.Second},
		"and reads are slow": {6 * time.Second, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				rows := &hiding{Store: memory.New(), id: task.ID{1}}
				s := &lossy{Store: rows}
				n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: one("x", nil), Handlers: handle("x", new(journal).work(0))}}
				n.open()
				t.Cleanup(n.close)
				s.answer(func(inserted, _ int) bool { return inserted > 0 }, nil)
				lost := func(id task.ID) {
					if _, err := n.Submit(t.Context(), engine.Request{ID: id, Type: "x"}); err == nil {
						t.Fatal("the answer was not lost")
					}
				}
				rows.slow.Store(int64(c.slow))
				lost(rows.id)
				time.Sleep(50 * time.Second) // for two minutes, it may still be inserted: the node looks at it each 15 seconds
				id := task.ID{2}
				lost(id)
				s.answer(nil, nil)
				time.Sleep(c.within)
				rows.slow.Store(0)
				n.expect(id, task.Done)
			})
		})
	}
}

// A node reads a row from the store before the insert is answered, and the answer to its grab
// is lost.
func TestATaskWithAGrabThatWasNotAnsweredRunsThoughItsInsertIsAnsweredLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		g.noBus = true
		var s *lossyShared
		g.wrap = func(m *memory.Store) storage.Store {
			s = &lossyShared{Store: m, lossy: lossy{Store: m}}
			return s
		}
		set := one("x", nil)
		set.Slots = 1
		m := g.join("a", set, takes(10*time.Second), "x")
		busy := m.submit(engine.Request{Type: "x"}) // runs for 10 s
		var lost atomic.Bool
		s.answer(func(inserted, swapped int) bool {
			return inserted == 0 && swapped > 0 && s.grabs.Load() == 1 && lost.CompareAndSwap(false, true)
		}, func(inserted, _ int) time.Duration { return time.Duration(inserted) * 10500 * time.Millisecond })
		id := m.submit(engine.Request{Type: "x"}) // answered half a second after the first has ended; uncertain tasks are checked after a second
		if !lost.Load() {
			t.Fatal("the grab was answered")
		}
		time.Sleep(30 * time.Second)
		m.expect(busy, task.Done)
		m.expect(id, task.Done)
	})
}

// lossyShared is a lossy store that several nodes may share.
type lossyShared struct {
	*memory.Store
	lossy
	grabs atomic.Int64
}

func (s *lossyShared) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return s.lossy.Update(ctx, func(tx storage.Tx) error {
		return fn(&grabCountingTx{tx, &s.grabs})
	})
}

func (s *lossyShared) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, s.Update, b)
}

type grabCountingTx struct {
	storage.Tx
	grabs *atomic.Int64
}

func (x *grabCountingTx) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	for _, c := range cs {
		if c.To == task.Processing {
			x.grabs.Add(1)
		}
	}
	return x.Tx.Swap(ctx, cs...)
}

// grabBehind makes a row processing behind the engine's back.
func grabBehind(t *testing.T, n *node, id task.ID) {
	t.Helper()
	row := n.get(id)
	rows, err := n.store.Swap(t.Context(), task.Change{Ref: row.Ref(), To: task.Processing, At: time.Now(), NextEventAt: time.Now(), Owner: n.Incarnation()})
	if err != nil || rows[0] == nil {
		t.Fatalf("swap: %v, %v", rows, err)
	}
}

func TestWhatIsProcessingHereAndHeldByNothingIsFoundAndDecidedAbout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var j journal
		var heard logLines
		set := one("again", nil)
		once := policy.DefaultType()
		once.Delivery = policy.AtMostOnce
		set.Types["once"] = once
		work := task.HandlerFunc(j.work(2 * time.Minute))
		n := start(t, set, map[string]task.Handler{"again": work, "once": work})
		n.close()
		n.config.Log = slog.New(&heard)
		n.open()
		later := time.Now().Add(time.Hour)
		again, once1 := n.submit(engine.Request{Type: "again", At: later}), n.submit(engine.Request{Type: "once", At: later})
		held := n.submit(engine.Request{Type: "again"})
		grabBehind(t, n, again)
		grabBehind(t, n, once1)
		time.Sleep(10 * time.Second)
		n.expect(again, task.Processing) // the answer may still come
		time.Sleep(time.Minute)
		if got := n.expect(once1, task.Error); !strings.Contains(got.LastError, "may have taken effect") {
			t.Errorf("it says %q", got.LastError)
		}
		if got := n.end(again); got.State != task.Done || got.Attempt != 1 || got.Crashes != 0 {
			t.Errorf("%v at attempt %d after %d crashes", got.State, got.Attempt, got.Crashes)
		}
		if got := n.end(held); got.Attempt != 1 || len(j.payloads()) != 2 {
			t.Errorf("a running task was taken away: attempt %d, %d runs in all", got.Attempt, len(j.payloads()))
		}
		if s := n.Stats(); s.Reclaimed != 2 {
			t.Errorf("%d were counted", s.Reclaimed)
		}
		if heard.count("nothing of them was under way") != 1 {
			t.Errorf("it was not said once: %v", heard.lines)
		}
	})
}

// logLines keeps the messages of a log.
type logLines struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logLines) WithGroup(string) slog.Handler            { return l }
func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.lines = append(l.lines, line)
	return nil
}

func (l *logLines) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// unheard is a store that commits transactions, but does not call OnCommit functions, and returns
// an error.
type unheard struct{ storage.Store }

type unheardTx struct{ storage.Tx }

func (unheardTx) OnCommit(func()) {}

func (s *unheard) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := s.Store.Update(ctx, func(tx storage.Tx) error { return fn(unheardTx{tx}) }); err != nil {
		return err
	}
	return errNo
}

func TestATaskRunsThoughTheAnswerToItsTransactionWasLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", new(journal).work(0)))
		var receipts []engine.Receipt
		lost := unheard{n.store}
		err := lost.Update(t.Context(), func(tx storage.Tx) (err error) {
			receipts, err = n.SubmitTx(t.Context(), tx, engine.Request{Type: "x"})
			return err
		})
		if err == nil {
			t.Fatal("the answer was not lost")
		}
		time.Sleep(10 * time.Second)
		n.expect(receipts[0].ID, task.Done)
	})
}

func TestATaskRunsThoughItsTransactionIsRepeatedAfterItsAnswerWasLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", new(journal).work(0)))
		r := engine.Request{Type: "x", ID: task.NewIDs([32]byte{1}).Next(time.Now())}
		lost := unheard{n.store}
		for i, update := range []func(context.Context, func(storage.Tx) error) error{lost.Update, n.store.Update} {
			err := update(t.Context(), func(tx storage.Tx) error {
				_, err := n.SubmitTx(t.Context(), tx, r)
				return err
			})
			if (i == 0) != (err != nil) {
				t.Fatalf("try %d: %v", i+1, err)
			}
		}
		time.Sleep(10 * time.Second)
		n.expect(r.ID, task.Done)
	})
}

// losesOne is a store that loses the answer to one commit.
type losesOne struct {
	*memory.Store
	now atomic.Bool // the next one
}

func (s *losesOne) Update(ctx context.Context, fn func(storage.Tx) error) error {
	err := s.Store.Update(ctx, fn)
	if err == nil && s.now.CompareAndSwap(true, false) {
		err = errNo
	}
	return err
}

func (s *losesOne) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, s.Update, b)
}

func TestAWaitEndsThoughTheAnswerToTheLastSaveWasLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &losesOne{Store: memory.New()}
		set := one("x", func(p *policy.Type) { p.Retention.Done = 0 }) // the row is deleted when the task ends
		n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: set, Handlers: handle("x", new(journal).work(time.Second))}}
		n.open()
		t.Cleanup(n.close)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, wait := range []func(task.ID) error{
			func(id task.ID) error { return n.WaitTasks(ctx, id) },
			func(task.ID) error { return n.WaitType(ctx, "x") },
		} {
			id := n.submit(engine.Request{Type: "x"})
			time.AfterFunc(time.Second/2, func() { s.now.Store(true) })
			if err := wait(id); err != nil {
				t.Error(err)
			}
		}
	})
}

// lateFirst is a store that answers the commit of one transaction late, and loses the answer to
// another.
type lateFirst struct {
	*memory.Store
	late, lose atomic.Bool // the next one
}

func (s *lateFirst) Update(ctx context.Context, fn func(storage.Tx) error) error {
	late, lose := s.late.CompareAndSwap(true, false), s.lose.CompareAndSwap(true, false)
	err := s.Store.Update(ctx, fn)
	if late {
		time.Sleep(5 * time.Second)
	}
	if err == nil && lose {
		err = errNo
	}
	return err
}

func (s *lateFirst) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, s.Update, b)
}

func TestALateAnswerToAnInsertConfirmsNoLaterChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &lateFirst{Store: memory.New()}
		n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: one("x", nil), Handlers: handle("x", new(journal).work(0))}}
		n.open()
		t.Cleanup(n.close)
		id := task.NewIDs([32]byte{1}).Next(time.Now())
		s.late.Store(true)
		answered := make(chan struct{})
		go func() {
			n.submit(engine.Request{Type: "x", ID: id, At: time.Now().Add(time.Hour)})
			close(answered)
		}()
		time.Sleep(4500 * time.Millisecond)
		s.lose.Store(true)
		if _, err := n.Reschedule(t.Context(), task.Ref{ID: id}, time.Now().Add(5*time.Second)); err == nil {
			t.Fatal("the answer was not lost")
		}
		<-answered
		time.Sleep(time.Minute)
		n.expect(id, task.Done)
	})
}
