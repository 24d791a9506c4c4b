package pebble

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// library asks for compactions as the real library does: once, and then it waits to be called. It
// holds a lock of its own in that time.
type library struct {
	c *compactions

	mu      sync.Mutex
	allowed int           // at a time; guarded by mu or c.mu: both are held to change it
	takes   time.Duration // guarded by mu: duration of each compaction
	todo    int           // guarded by mu
	waiting bool          // guarded by mu: it was refused
	running int           // guarded by mu
	most    int           // guarded by mu: highest running
	done    int           // guarded by mu

	compacting sync.WaitGroup
	scheduled  func() // if not nil, called without a lock before Schedule returns
}

func newLibrary(allowed int) *library {
	l := &library{c: new(compactions), allowed: allowed, takes: time.Second}
	l.c.Register(2, l)
	return l
}

func (l *library) GetAllowedWithoutPermission() int { return l.allowed }

func (l *library) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting, pebble.WaitingCompaction{}
}

func (l *library) Schedule(h pebble.CompactionGrantHandle) bool {
	l.mu.Lock()
	if l.todo == 0 {
		l.waiting = false
	}
	taken := l.waiting
	if taken {
		l.begin(h)
	}
	l.mu.Unlock()
	if l.scheduled != nil {
		l.scheduled()
	}
	return taken
}

// flush ends a flush that adds compactions, and sets the number allowed from now on.
func (l *library) flush(work, allowed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c.mu.Lock()
	l.allowed = allowed
	l.c.mu.Unlock()
	l.todo += work
	l.c.UpdateGetAllowedWithoutPermission()
	l.ask()
}

// ask asks for compactions unless it waits for one. The caller holds mu.
func (l *library) ask() {
	for !l.waiting && l.todo > 0 {
		ok, h := l.c.TrySchedule()
		if !ok {
			l.waiting = true
			return
		}
		l.begin(h)
	}
}

// begin starts a compaction. The caller holds mu.
func (l *library) begin(h pebble.CompactionGrantHandle) {
	l.todo--
	l.running++
	l.most = max(l.most, l.running)
	takes := l.takes
	l.compacting.Go(func() {
		time.Sleep(takes)
		l.mu.Lock()
		l.running--
		l.done++
		l.mu.Unlock()
		h.Done()
		l.mu.Lock()
		l.ask()
		l.mu.Unlock()
	})
}

// expect checks the numbers of compactions that run, wait and are done.
func (l *library) expect(t interface{ Fatalf(string, ...any) }, running, todo, done int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running != running || l.todo != todo || l.done != done {
		t.Fatalf("%d run, %d wait, %d are done; want %d, %d, %d", l.running, l.todo, l.done, running, todo, done)
	}
}

func TestCompactionsThatWaitRunWhenOthersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(2)
		l.flush(5, 2)
		synctest.Wait()
		for _, want := range [][3]int{{2, 3, 0}, {2, 1, 2}, {1, 0, 4}, {0, 0, 5}} {
			l.expect(t, want[0], want[1], want[2])
			time.Sleep(l.takes)
			synctest.Wait()
		}
		l.c.Unregister()
	})
}

func TestCompactionsThatWaitRunWhenAFlushAllowsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(1)
		l.flush(3, 1)
		synctest.Wait()
		l.expect(t, 1, 2, 0)
		l.flush(0, 3)
		synctest.Wait()
		l.expect(t, 3, 0, 0)
		l.compacting.Wait()
		l.c.Unregister()
	})
}

func TestNoCompactionBeginsOnceTheStoreIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(1)
		l.flush(3, 1)
		l.c.Unregister()
		l.flush(1, 4)
		l.compacting.Wait()
		l.expect(t, 0, 3, 1)
	})
}

func TestACompactionIsNotForgottenWhileAGrantComesToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(1)
		l.scheduled = func() {
			l.scheduled = nil
			l.mu.Lock()
			defer l.mu.Unlock()
			l.todo++
			l.ask()
			if !l.waiting {
				t.Error("a grant that is not taken was made twice")
			}
		}
		l.flush(0, 1)
		synctest.Wait()
		l.expect(t, 1, 0, 0)
		l.compacting.Wait()
		l.c.Unregister()
	})
}

func TestAGrantEndsWhenTheStoreIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(1)
		l.flush(3, 1)
		closed := make(chan struct{})
		l.scheduled = func() {
			go func() {
				l.c.Unregister()
				close(closed)
			}()
			time.Sleep(time.Nanosecond) // until it waits for this grant
			select {
			case <-closed:
				t.Error("closed in the middle of a grant")
			default:
			}
		}
		l.flush(0, 3)
		synctest.Wait()
		<-closed
		l.compacting.Wait()
		l.expect(t, 0, 1, 2)
	})
}

// In every order of events, all requested compactions run, and never more at a time than were allowed
// at some time.
func TestEveryCompactionRunsAndNeverTooManyDo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) [4]int {
			return [4]int{
				rapid.IntRange(0, 5).Draw(r, "work"), rapid.IntRange(1, 4).Draw(r, "allowed"),
				rapid.IntRange(0, 3).Draw(r, "takes"), rapid.IntRange(0, 3).Draw(r, "pause"),
			}
		}), 1, 20).Draw(r, "flushes")
		l, work, allowed := newLibrary(1), 0, 1
		synctest.Test(t, func(*testing.T) {
			for _, s := range steps {
				work += s[0]
				allowed = max(allowed, s[1])
				l.mu.Lock()
				l.takes = time.Duration(s[2])
				l.mu.Unlock()
				l.flush(s[0], s[1])
				time.Sleep(time.Duration(s[3]))
			}
			time.Sleep(time.Hour)
			l.c.Unregister()
		})
		l.expect(r, 0, 0, work)
		if l.most > allowed {
			r.Fatalf("%d ran at a time, want at most %d", l.most, allowed)
		}
	})
}

// Flushes and compactions end concurrently, for the race detector.
func TestCompactionsOfManyGoroutines(t *testing.T) {
	const flushers, flushes = 4, 500
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(2)
		l.takes = 0
		var wg sync.WaitGroup
		for range flushers {
			wg.Go(func() {
				for range flushes {
					l.flush(1, 2)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		l.expect(t, 0, 0, flushers*flushes)
		if l.most > 2 {
			t.Errorf("%d ran at a time", l.most)
		}
		l.c.Unregister()
	})
}

func TestAStoreUnderLoadIsCompactedAndClosesInTheMiddle(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := filepath.Join(t.TempDir(), "db")
	for round := range 2 {
		s, err := Open(dir, Options{CacheSize: 1 << 20, MemTableSize: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		churn(t, s, byte(round+1))
		m := s.db.Metrics()
		if m.Compact.DefaultCount+m.Compact.MoveCount == 0 || m.Flush.Count < 10 {
			t.Errorf("%d flushes, %d compactions and %d moves", m.Flush.Count, m.Compact.DefaultCount, m.Compact.MoveCount)
		}
		if n := m.ReadAmp(); n > 40 {
			t.Errorf("a read looks at %d files", n)
		}
		// The load has just ended, so compactions run and wait.
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// churn inserts and deletes tasks until many compactions are due.
func churn(t *testing.T, s *Store, seed byte) {
	t.Helper()
	const batches, size = 40, 64
	ids := task.NewIDs([32]byte{seed})
	now := time.Now()
	payload := make([]byte, 4<<10)
	var live []task.Ref
	for range batches {
		rows := make([]*task.Task, size)
		for i := range rows {
			rows[i] = &task.Task{ID: ids.Next(now), Type: "noop", Payload: payload}
			rows[i].Create(task.Submitted, now, time.Time{})
		}
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			if _, err := tx.Insert(t.Context(), rows...); err != nil {
				return fmt.Errorf("insert: %w", err)
			}
			_, err := tx.Delete(t.Context(), live...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		live = live[:0]
		for _, r := range rows[:size/2] {
			live = append(live, r.Ref())
		}
	}
}
