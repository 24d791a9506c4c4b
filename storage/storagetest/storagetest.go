// Package storagetest has the suite that every [storage.Store] passes, including wrappers, the
// benchmark that compares them, and [Faulty], a store that fails on demand.
package storagetest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Reopener is implemented by a durable store under test, usually by a wrapper. Reopen closes the
// store and opens it again.
type Reopener interface {
	Reopen(t testing.TB) storage.Store
}

// Crasher is implemented by a durable store under test on a machine that can lose power.
// Crash opens a store with everything that is durable now and nothing else. The store itself
// is not changed.
type Crasher interface {
	Crash(t testing.TB) storage.Store
}

// Checker is implemented by a store that can check its own consistency.
type Checker interface {
	Check(ctx context.Context) error
}

// Placer is implemented by a store under test that keeps rows in several places, by their IDs.
// It makes some promises only for rows in the same place: that Seq is in the order of insertion,
// that no two rows have the same type and key, and that an export is consistent.
type Placer interface {
	Place(id task.ID) int
}

// Run tests the stores that open returns. Each call of open returns a new empty store, which is
// closed with the test.
func Run(t *testing.T, open func(t testing.TB) storage.Store) { run(t, open, false) }

// RunParallel is [Run] with all cases in parallel: for stores that mostly wait. It calls open from
// several goroutines.
func RunParallel(t *testing.T, open func(t testing.TB) storage.Store) { run(t, open, true) }

func run(t *testing.T, open func(t testing.TB) storage.Store, parallel bool) {
	probe := open(t)
	_, inspector := probe.(storage.Inspector)
	keyInspector := listsKeys(t, probe)
	_, liveCounter := probe.(storage.LiveCounter)
	_, noSyncer := probe.(storage.NoSyncer)
	_, settings := probe.(storage.Settings)
	_, logKeeper := probe.(storage.LogKeeper)
	_, shared := probe.(storage.Shared)
	_, exporter := probe.(storage.Exporter)
	_, partUpdater := probe.(storage.PartUpdater)
	_, ruled := probe.(storage.Ruled)
	_, backuper := probe.(storage.Backuper)
	_, reopener := probe.(Reopener)
	_, crasher := probe.(Crasher)
	_, checker := probe.(Checker)
	t.Logf("exercising %T: inspector %t, key inspector %t, live counter %t, no-syncer %t, settings %t, log keeper %t, shared %t, exporter %t, part updater %t, ruled %t, reopener %t, crasher %t, checker %t",
		probe, inspector, keyInspector, liveCounter, noSyncer, settings, logKeeper, shared, exporter, partUpdater, ruled, reopener, crasher, checker)

	sections := []struct {
		name  string
		here  bool
		cases []testCase
	}{
		{"insert", true, insertCases},
		{"existing", true, existingCases},
		{"terms", true, termsCases},
		{"swap", true, swapCases},
		{"remember", true, rememberCases},
		{"free_key", true, freeKeyCases},
		{"erase", true, eraseCases},
		{"note", true, noteCases},
		{"signal", true, signalCases},
		{"children", true, childrenCases},
		{"state", true, stateCases},
		{"query", true, queryCases},
		{"delete", true, deleteCases},
		{"update", true, updateCases},
		{"life", true, lifeCases},
		{"model", true, modelCases},
		{"history", true, historyCases},
		{"inspect", inspector, inspectCases},
		{"kinds", countsKinds(probe), kindCases},
		{"search", inspector, searchCases},
		{"inspect keys", keyInspector, inspectKeyCases},
		{"find keys", findsKeys(t, probe), findKeyCases},
		{"live counter", liveCounter, liveCounterCases},
		{"no sync", noSyncer, noSyncCases},
		{"settings", settings, settingsCases},
		{"logs", logKeeper, logCases},
		{"batch", true, batchCases},
		{"follow", true, followCases},
		{"ends", true, endsCases},
		{"after", true, afterCases},
		{"documents", true, documentCases},
		{"order", true, orderCases},
		{"inherit", true, inheritCases},
		{"turns", true, turnCases},
		{"shared", shared, sharedCases},
		{"export", exporter, exportCases},
		{"one database", partUpdater, partCases},
		{"rules", ruled, rulesCases},
		{"backup", backuper, backupCases},
		{"reopen", reopener, reopenCases},
		{"crash", crasher, crashCases},
	}
	for _, section := range sections {
		if !section.here {
			continue
		}
		t.Run(section.name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			for _, c := range section.cases {
				t.Run(c.name, func(t *testing.T) {
					if parallel {
						t.Parallel()
					}
					f := &fixture{T: t, Store: open(t), ids: task.NewIDs([32]byte{7})}
					c.run(f)
					f.check()
				})
			}
		})
	}
}

// testCase tests one property of a store. Its name is a sentence.
type testCase struct {
	name string
	run  func(f *fixture)
}

// fixture is a new store under test, with helpers of the cases.
type fixture struct {
	*testing.T
	storage.Store
	ids  *task.IDs
	near task.ID // see together
	keys int     // how many ordering keys were made
}

// epoch is the time of the tests.
var epoch = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

// at returns a moment n seconds into the tests.
func at(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

// ctx returns the context of the test.
func (f *fixture) ctx() context.Context { return f.T.Context() }

// check calls Check if the store is a [Checker].
func (f *fixture) check() {
	f.Helper()
	if c, ok := f.Store.(Checker); ok && !f.Failed() {
		if err := c.Check(f.ctx()); err != nil {
			f.Errorf("the store does not agree with itself: %v", err)
		}
	}
}

// row returns a new row in this state, changed by edit.
func (f *fixture) row(s task.State, edit ...func(*task.Task)) *task.Task {
	t := &task.Task{
		ID: f.id(), Version: 1, State: s, Type: "mail", Priority: task.DefaultPriority,
		CreatedAt: epoch, ReadyAt: epoch, UpdatedAt: epoch, Payload: []byte("hello"),
	}
	if s == task.Processing {
		t.Owner, t.Attempt, t.StartedAt = task.ID{9}, 1, epoch
	}
	for _, e := range edit {
		e(t)
	}
	return t
}

// together makes all later rows belong to one place, for cases about promises that a [Placer]
// store makes only for such rows. It changes nothing for other stores.
func (f *fixture) together() { f.near = f.ids.Next(epoch) }

// id returns a new ID.
func (f *fixture) id() task.ID {
	id := f.ids.Next(epoch)
	if d, ok := f.Store.(Placer); ok && !f.near.IsZero() {
		for d.Place(id) != d.Place(f.near) {
			id = f.ids.Next(epoch)
		}
	}
	return id
}

// rows returns n of them.
func (f *fixture) rows(n int, s task.State, edit func(i int, t *task.Task)) []*task.Task {
	ts := make([]*task.Task, n)
	for i := range ts {
		ts[i] = f.row(s)
		if edit != nil {
			edit(i, ts[i])
		}
	}
	return ts
}

// put inserts rows and fails the test if one exists.
func (f *fixture) put(ts ...*task.Task) {
	f.Helper()
	done, err := f.Insert(f.ctx(), ts...)
	if err != nil {
		f.Fatal(err)
	}
	for i, d := range done {
		if !d.Created() {
			f.Fatalf("row %d of %d was not inserted: %v is in the way", i, len(ts), d.Existing)
		}
	}
}

// get returns an existing row.
func (f *fixture) get(id task.ID) *task.Task {
	f.Helper()
	t, err := f.Get(f.ctx(), id)
	if err != nil {
		f.Fatal(err)
	}
	return t
}

// swap makes one change and returns the row, or nil if the change did not apply.
func (f *fixture) swap(c task.Change) *task.Task {
	f.Helper()
	ts, err := f.Swap(f.ctx(), c)
	if err != nil {
		f.Fatal(err)
	}
	if len(ts) != 1 {
		f.Fatalf("one change returned %d rows", len(ts))
	}
	return ts[0]
}

// same fails the test unless the rows are equal.
func (f *fixture) same(got, want *task.Task) {
	f.Helper()
	if d := difference(got, want); d != "" {
		f.Fatal(d)
	}
}

// difference returns the first field in which rows differ. Nil and empty are equal.
func difference(got, want *task.Task) string {
	if got == nil || want == nil {
		if got == want {
			return ""
		}
		return fmt.Sprintf("got row %v, want %v", got, want)
	}
	g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range g.NumField() {
		a, b := g.Field(i), w.Field(i)
		if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
			continue
		}
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			return fmt.Sprintf("task %v: %s is %s, want %s", want.ID, g.Type().Field(i).Name, brief(a), brief(b))
		}
	}
	return ""
}

// equal fails the test unless the values are deeply equal.
func equal[T any](f *fixture, what string, got, want T) {
	f.Helper()
	if !reflect.DeepEqual(got, want) {
		f.Fatalf("%s: got %s, want %s", what, brief(got), brief(want))
	}
}

// brief prints the beginning of v.
func brief(v any) string {
	s := fmt.Sprint(v)
	if len(s) > 600 {
		return s[:600] + "..."
	}
	return s
}

// idsOf returns the IDs of rows in their order.
func idsOf(ts []*task.Task) []task.ID {
	out := make([]task.ID, len(ts))
	for i, t := range ts {
		out[i] = t.ID
	}
	return out
}
