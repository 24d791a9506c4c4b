package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// faultyStore is a store in memory that makes mistakes on purpose.
type faultyStore struct {
	*memory.Store
	insert func(*task.Task) bool // false: the row is reported as added, and is not
	get    func(*task.Task)
}

func (s *faultyStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Store.Update(ctx, func(tx storage.Tx) error { return fn(&faultyTx{tx, s}) })
}

func (s *faultyStore) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, s.Update, b)
}

func (s *faultyStore) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	t, err := s.Store.Get(ctx, id)
	if err == nil && s.get != nil {
		s.get(t)
	}
	return t, err
}

type faultyTx struct {
	storage.Tx
	store *faultyStore
}

func (x *faultyTx) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	var kept []*task.Task
	for _, t := range ts {
		if x.store.insert(t) {
			kept = append(kept, t)
		}
	}
	if _, err := x.Tx.Insert(ctx, kept...); err != nil {
		return nil, err
	}
	return make([]storage.Inserted, len(ts)), nil
}

// onFaulty returns options for a faulty store.
func onFaulty(t *testing.T, s *faultyStore) Options {
	o := on(t, Memory)
	o.Patience = 2 * time.Second // a busy machine lets nothing end for some time
	s.Store = memory.New()
	if s.insert == nil {
		s.insert = func(*task.Task) bool { return true }
	}
	o.OpenStore = func(string) (storage.Store, error) { return s, nil }
	return o
}

// failed runs a scenario once, and returns the result of the check, which must have failed.
func failed(t *testing.T, s *Scenario, o Options) result.Check {
	t.Helper()
	results, err := Run(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	check := results[0].Runs[0].Check
	if check.OK || len(check.Notes) == 0 {
		t.Errorf("the check says %+v", check)
	}
	return check
}

func TestASeededLossIsFound(t *testing.T) {
	for name, load := range map[string]string{"open": "{shape: constant, rate: 500/s}", "closed": "{shape: closed, in_flight: 4}"} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int32
			o := onFaulty(t, &faultyStore{insert: func(*task.Task) bool { return seen.Add(1) != 20 }})
			check := failed(t, parsed(t, small, "runs=1", "load="+load), o)
			if check.Lost != 1 || check.Doubled != 0 || !strings.Contains(check.Notes[0], "acknowledged") {
				t.Errorf("one task was dropped, and the check says %+v", check)
			}
		})
	}
}

func TestAClosedLoadEndsWhenEveryTaskIsLost(t *testing.T) {
	check := failed(t, parsed(t, small, "runs=1", "load={shape: closed, in_flight: 4}"), onFaulty(t, &faultyStore{insert: func(*task.Task) bool { return false }}))
	if check.Lost != 4 {
		t.Errorf("the check says %+v", check)
	}
}

func TestARowThatIsNotWhatWasSeenIsFound(t *testing.T) {
	o := onFaulty(t, &faultyStore{get: func(t *task.Task) { t.State = task.Cancelled }})
	if check := failed(t, parsed(t, small, "runs=1"), o); check.Lost == 0 || !strings.Contains(check.Notes[0], "cancelled in the store, and ended as done") {
		t.Errorf("the check says %+v", check)
	}
}

func TestASeededDuplicateIsFound(t *testing.T) {
	var seen atomic.Int32
	o := on(t, Memory)
	o.tamper.handler = func(h task.Handler) task.Handler {
		return task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			if seen.Add(1) == 20 {
				if _, err := h.Handle(ctx, t); err != nil {
					return nil, err
				}
			}
			return h.Handle(ctx, t)
		})
	}
	if check := failed(t, parsed(t, small, "runs=1"), o); check.Doubled != 1 || check.Lost != 0 {
		t.Errorf("one task was run twice, and the check says %+v", check)
	}
}

func TestAHandlerThatIsNeverCalledIsFound(t *testing.T) {
	o := on(t, Memory)
	o.tamper.handler = func(task.Handler) task.Handler {
		return task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
	}
	if check := failed(t, parsed(t, small, "runs=1"), o); check.Lost == 0 || !strings.Contains(check.Notes[0], "never called") {
		t.Errorf("the check says %+v", check)
	}
}

func TestAnUnexpectedErrorIsFound(t *testing.T) {
	var seen atomic.Int32
	o := on(t, Memory)
	o.tamper.handler = func(h task.Handler) task.Handler {
		return task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			if seen.Add(1) == 20 {
				return nil, task.Permanent(errors.New("on purpose"))
			}
			return h.Handle(ctx, t)
		})
	}
	if check := failed(t, parsed(t, small, "runs=1"), o); check.Lost != 1 || !strings.Contains(check.Notes[0], "on purpose") {
		t.Errorf("the check says %+v", check)
	}
}

const inOrder = `
name: order
purpose: Is the order kept?
warm_up: 0s
duration: 300ms
runs: 1
slots: 100
load: {shape: constant, rate: 500/s}
ordered: true
tasks: [{name: step, keys: 2, handler: {sleep: 5ms}}]
`

func TestABrokenOrderIsFound(t *testing.T) {
	s := parsed(t, inOrder, "slots=2") // there is always a task that waits
	ran(t, s, on(t, Memory))           // without the fault below, the order is kept
	var seen atomic.Int32
	o := onFaulty(t, &faultyStore{insert: func(t *task.Task) bool {
		t.Priority = uint8(seen.Add(1) % 10)
		t.OrderingKey, t.Turn = "", task.Unordered
		return true
	}})
	o.Patience = 3 * time.Minute
	if check := failed(t, s, o); check.Disorder == 0 || check.Lost+check.Doubled+check.Exceeded != 0 {
		t.Errorf("tasks overtook each other, and the check says %+v", check)
	}
}

func TestAnExceededLimitIsFound(t *testing.T) {
	for name, lift := range map[string]func(*policy.Set){
		"limit": func(s *policy.Set) {
			l := s.Limits["one-per-key"]
			l.Max = 2
			s.Limits["one-per-key"] = l
		},
		"rate": func(s *policy.Set) {
			l := s.Limits["gateway"]
			l.Rate.Count *= 2
			s.Limits["gateway"] = l
		},
		"weight":      func(s *policy.Set) { typ := s.Types["heavy"]; typ.Weight = 1; s.Types["heavy"] = typ },
		"slots":       func(s *policy.Set) { s.Slots = 0 },
		"concurrency": func(s *policy.Set) { typ := s.Types["many"]; typ.Concurrency = 0; s.Types["many"] = typ },
	} {
		t.Run(name, func(t *testing.T) {
			s := parsed(t, inOrder, "ordered=false", "slots=4", "load={shape: bursts, burst: 50, every: 100ms}", "duration=100ms",
				"tasks=[{name: step, keys: 2, limits: [one-per-key], handler: {sleep: 2ms}}, {name: many, concurrency: 3, handler: {sleep: 5ms}},"+
					"{name: sent, keys: 2, limits: [partner]}, {name: heavy, weight: 2, limits: [pair], handler: {sleep: 2ms}}]",
				"limits=[{name: one-per-key, max: 1, per: headers.key}, {name: pair, max: 2},"+
					"{name: gateway, rate: {count: 100, per: 1s, burst: 3}}, {name: partner, of: gateway, rate: 80/s, per: headers.key}]")
			ran(t, s, on(t, Memory)) // without the fault below, the limits hold
			o := on(t, Memory)
			o.tamper.policies = lift
			// On a busy machine it depends on chance whether a limit is exceeded.
			var check result.Check
			for try := 0; try < 10 && check.Exceeded == 0; try++ {
				results, err := Run(t.Context(), s, o)
				if err != nil {
					t.Fatal(err)
				}
				check = results[0].Runs[0].Check
			}
			if check.OK || check.Exceeded == 0 || check.Lost+check.Doubled != 0 {
				t.Errorf("more ran than may, and the check says %+v", check)
			}
		})
	}
}

// fed returns a repetition with records that fill makes.
func fed(s *Scenario, n int, fill func(i int, rec *record)) *repetition {
	rep := newRepetition(s, &Options{}, 0, time.Now())
	for i := range n {
		_, rec := rep.records.add()
		rec.id = rep.records.newID(int64(i), time.Now())
		fill(i, rec)
	}
	return rep
}

func TestStartsAreHeldAgainstARate(t *testing.T) {
	const ms = int64(time.Millisecond)
	r := policy.Rate{Count: 100, Per: time.Second, Burst: 3} // one in 10 ms
	for name, c := range map[string]struct {
		at   []int64
		want []crowd
	}{
		"none":                    {nil, nil},
		"a burst":                 {[]int64{5 * ms, 5 * ms, 5 * ms}, nil},
		"a burst and its rate":    {[]int64{0, 0, 0, 10 * ms, 20 * ms}, nil},
		"one too many":            {[]int64{0, 0, 0, 0}, []crowd{{4, 3, 0}}},
		"one too soon":            {[]int64{0, 0, 0, 9 * ms}, []crowd{{4, 3, 9 * time.Millisecond}}},
		"by less than the grain":  {[]int64{0, 0, 0, 10*ms - grain}, nil},
		"a burst after a pause":   {[]int64{0, 0, 0, 500 * ms, 500 * ms, 500 * ms}, nil},
		"too much after a pause":  {[]int64{0, 500 * ms, 500 * ms, 500 * ms, 501 * ms}, []crowd{{4, 3, time.Millisecond}}},
		"too much in the long":    {[]int64{0, 0, 0, 10 * ms, 19 * ms}, []crowd{{5, 4, 19 * time.Millisecond}}},
		"a burst while it is due": {[]int64{0, 0, 0, 10 * ms, 20 * ms, 20 * ms}, []crowd{{6, 5, 20 * time.Millisecond}}},
	} {
		if got := crowded(c.at, r); !slices.Equal(got, c.want) {
			t.Errorf("%s: it finds %v, want %v", name, got, c.want)
		}
	}
	if got := early([]int64{5 * ms, 5 * ms, 5 * ms, 8 * ms, 9 * ms}, 0, r); !slices.Equal(got, []crowd{{4, 3, 8 * time.Millisecond}, {5, 3, 9 * time.Millisecond}}) {
		t.Errorf("since a time, it finds %v", got)
	}
	if got := early([]int64{5 * ms, 5 * ms, 5 * ms, 10 * ms}, 0, r); got != nil {
		t.Errorf("since a time, it finds %v", got)
	}
	if got := crowded(make([]int64, 101), policy.Rate{Count: 100, Per: time.Second}); len(got) != 1 {
		t.Errorf("without a burst, it finds %v", got)
	}
}

func TestRunsAreHeldAgainstTheKillsThatCutThemOff(t *testing.T) {
	s := parsed(t, small, "faults={kill_node: 1s}", "tasks=[{name: twice}, {name: once, delivery: at_most_once}]")
	for name, c := range map[string]struct {
		flow                 int32
		calls, started, last int64
		doubled              int64
	}{
		"once":                                    {0, 1, 5, 5, 0},
		"again after a kill":                      {0, 2, 5, 15, 0},
		"again without a kill":                    {0, 2, 11, 15, 1},
		"twice more after one kill":               {0, 3, 5, 15, 1},
		"twice more after two":                    {0, 3, 5, 25, 0},
		"again after a kill, and once was agreed": {1, 2, 5, 15, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rep := fed(s, 1, func(_ int, rec *record) {
				rec.flow, rec.started, rec.begun = c.flow, c.started, c.last
				rec.calls.Store(int32(c.calls))
			})
			rep.kills = []int64{10, 20}
			v := &verifier{rep: rep}
			if v.doubled(); v.check.Doubled != c.doubled {
				t.Errorf("%d are doubled, want %d", v.check.Doubled, c.doubled)
			}
		})
	}
}

func TestOnlyTasksThatCameAfterAnotherAreInItsOrder(t *testing.T) {
	type times struct{ called, acked, started int64 }
	for name, c := range map[string]struct {
		tasks    []times
		disorder int64
	}{
		"in order":                    {[]times{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, 0},
		"overtaken":                   {[]times{{1, 2, 9}, {4, 5, 6}}, 1},
		"two overtake one":            {[]times{{1, 2, 9}, {3, 4, 6}, {5, 6, 8}}, 2},
		"at the same time":            {[]times{{1, 4, 9}, {3, 5, 6}}, 0},
		"one was never acknowledged":  {[]times{{1, 0, 9}, {3, 5, 6}}, 0},
		"one has never started":       {[]times{{1, 2, 0}, {3, 5, 6}}, 0},
		"the middle one is overtaken": {[]times{{1, 2, 3}, {4, 5, 20}, {6, 7, 8}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := &verifier{rep: fed(parsed(t, inOrder), len(c.tasks), func(i int, rec *record) {
				rec.key = 1
				rec.called, rec.acked, rec.started = c.tasks[i].called, c.tasks[i].acked, c.tasks[i].started
			})}
			if v.order(); v.check.Disorder != c.disorder {
				t.Errorf("%d are out of order, want %d", v.check.Disorder, c.disorder)
			}
		})
	}
}

func TestARecordIsFoundByTheIDOfItsTaskOnly(t *testing.T) {
	rep := fed(parsed(t, small), chunkSize+10, func(int, *record) {})
	for _, i := range []int64{0, 1, 255, 256, chunkSize - 1, chunkSize, chunkSize + 9} {
		if rec := rep.records.at(i); rep.records.of(rec.id) != rec {
			t.Errorf("record %d is not found", i)
		}
	}
	other := newRecords(time.Now())
	for range 100 {
		if rep.records.of(other.newID(3, time.Now())) != nil {
			t.Fatal("a task of another repetition has a record here")
		}
	}
	if rep.records.of(rep.records.newID(chunkSize+10, time.Now())) != nil || rep.records.of(task.ID{}) != nil {
		t.Error("a task that was never registered has a record")
	}
}
