//go:build !race

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/transfer"
	"github.com/taskengine/taskengine/task"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// store has the methods of the stores of the tests.
type store interface {
	transfer.Target
	transfer.Source
}

// kinds open an empty store of each kind, which is closed with the test.
var kinds = map[string]func(testing.TB) store{
	"bolt": func(t testing.TB) store {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "tasks.bolt"), bolt.Options{})
		return closed(t, s, err)
	},
	"pebble": func(t testing.TB) store {
		s, err := pebble.Open(t.TempDir(), pebble.Options{CacheSize: 1 << 20, MemTableSize: 1 << 20})
		return closed(t, s, err)
	},
	"postgres": func(t testing.TB) store {
		url := postgrestest.Tables(t, server)
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		return closed(t, s, err)
	},
}

func closed(t testing.TB, s store, err error) store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var epoch = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

// filled puts n rows of all states, and settings, into a store.
func filled(t testing.TB, s store, n int) store {
	t.Helper()
	ids := task.NewIDs([32]byte{1})
	ts := make([]*task.Task, n)
	for i := range ts {
		ts[i] = row(ids, i)
	}
	slices.Reverse(ts) // the order of insertion is not that of the ids
	for batch := range slices.Chunk(ts, 700) {
		if _, err := s.Insert(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"pauses": `["mail"]`, "odd \x00": ""} {
		if err := s.SetSetting(t.Context(), name, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// row returns a row with a past that depends on n. Some run after others, or others run after them, and some are documents.
func row(ids *task.IDs, n int) *task.Task {
	if n%21 == 10 {
		c := task.NewDocumentChange(epoch, &task.DocumentWrite{Key: fmt.Sprint("{customer} ", n), ExpiresAt: []time.Time{{}, epoch.Add(time.Hour)}[n%2]}, []byte(fmt.Sprint("of ", n)))
		return c.Over(nil)
	}
	states := task.States()
	t := &task.Task{
		ID: ids.Next(epoch), Version: uint64(1 + n%5), State: states[n%len(states)], Type: "type" + fmt.Sprint(n%3), Shard: uint16(n % 256),
		Priority: uint8(n % 10), Group: fmt.Sprint(n % 4), CreatedAt: epoch, ReadyAt: epoch, UpdatedAt: epoch.Add(time.Duration(n) * time.Second),
		Attempt: uint32(n % 3), Headers: map[string]string{"n": fmt.Sprint(n), "": "\x00"}, Payload: []byte(fmt.Sprintf("%0*d", n%900, n)),
	}
	if n%2 == 0 {
		t.Key, t.OrderingKey = fmt.Sprintf("key \x00 %d", n), "one after the other"
	}
	switch t.State {
	case task.Waiting:
		t.Children, t.Signals = task.ExpectingTasks([]task.ID{{1, 15: byte(n)}, {2}}, n%3 == 0), task.NewSignals(task.Signals{Awaits: []string{task.AfterSet}})
	case task.Submitted:
		t.Children = &task.Children{Sets: []task.ChildSet{{Name: "page", Added: 3, Done: 1, Reported: []byte{2}}, {Name: task.FollowersSet, Added: 2, Shards: slices.Repeat([]byte{byte(n)}, 32)}}}
	case task.Processing:
		t.Owner, t.StartedAt = task.ID{byte(n)}, epoch
		t.Notes = task.NewNotes(task.Progress{Done: uint64(n), Total: 9, Message: "half", At: epoch}, []byte("from here"))
	case task.Done, task.Failed, task.Cancelled:
		t.NextEventAt, t.Result = epoch.Add(time.Duration(n%100)*time.Hour), []byte("it is done")
	case task.Error:
		t.LastError = "no luck"
		t.History = []task.Attempt{{Number: 1, StartedAt: epoch, EndedAt: epoch, Node: "a", Outcome: 1, Error: "no luck"}}
	}
	return t
}

// rows returns all rows of a store in the order of insertion, without Seq.
func rows(t testing.TB, s storage.Exporter) (ts []*task.Task) {
	t.Helper()
	err := s.Export(t.Context(), func(string, []byte) error { return nil }, func(r *task.Task) error {
		r.Seq = 0
		ts = append(ts, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// same fails the test unless the stores have the same rows in the same order.
func same(t testing.TB, got, want storage.Exporter) {
	t.Helper()
	w, g := rows(t, want), rows(t, got)
	if len(w) != len(g) {
		t.Fatalf("there are %d rows, want %d", len(g), len(w))
	}
	for i := range w {
		if reflect.DeepEqual(w[i], g[i]) {
			continue // or they differ only in empty values
		}
		if d := cmp.Diff(w[i], g[i], cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("row %d of %d differs (-want +got):\n%s", i, len(w), d)
		}
	}
}

// copied copies and fails the test unless that is complete.
func copied(t testing.TB, from transfer.Source, to transfer.Target, o transfer.Options) *transfer.Report {
	t.Helper()
	o.From = "here"
	report, err := transfer.Copy(t.Context(), from, to, o)
	if err != nil || !report.Complete {
		t.Fatalf("the copy is not complete: %v, %+v", err, report)
	}
	if err := transfer.Unfinished(t.Context(), to); err != nil {
		t.Error(err)
	}
	return report
}

func TestEverythingIsCopiedBetweenAnyTwoStores(t *testing.T) {
	const n = 1200
	for from, openFrom := range kinds {
		source := filled(t, openFrom(t), n)
		for to, openTo := range kinds {
			t.Run(from+" to "+to, func(t *testing.T) {
				target := openTo(t)
				last := int64(0)
				report := copied(t, source, target, transfer.Options{Progress: func(verifying bool, rows int64) {
					if rows < last && !verifying || rows > n {
						t.Errorf("after %d rows there are %d", last, rows)
					}
					last = rows
				}})
				if report.Rows != n || report.Added != n || report.Settings != 2 || report.Nothing || report.Source != report.Target || len(report.Differences) != 0 || last == 0 {
					t.Errorf("the report is %+v", report)
				}
				counts, err := target.Count(t.Context(), storage.Filter{})
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(counts, report.Counts); d != "" {
					t.Error(d)
				}
				same(t, target, source)
				if value, err := target.Setting(t.Context(), "pauses"); err != nil || string(value) != `["mail"]` {
					t.Errorf("the setting is %q, %v", value, err)
				}
				again := copied(t, source, target, transfer.Options{})
				if !again.Nothing || again.Added != 0 {
					t.Errorf("once more it is %+v", again)
				}
			})
		}
	}
}

func TestAnEmptyStoreIsCopied(t *testing.T) {
	for kind, open := range kinds {
		if report := copied(t, open(t), kinds["bolt"](t), transfer.Options{}); report.Rows != 0 {
			t.Errorf("%s: %+v", kind, report)
		}
	}
}

// failing is a store with inserts that fail after so many.
type failing struct {
	store
	left int
}

var errFailed = errors.New("no more")

func (f *failing) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	if f.left--; f.left < 0 {
		return nil, errFailed
	}
	return f.store.Insert(ctx, ts...)
}

func TestACopyThatWasBrokenOffGoesOn(t *testing.T) {
	source := filled(t, kinds["bolt"](t), 2500)
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			target := open(t)
			for try, want := range []int{0, 1, 2} {
				report, err := transfer.Copy(t.Context(), source, &failing{target, want}, transfer.Options{From: "here"})
				if !errors.Is(err, errFailed) || report.Complete {
					t.Fatalf("try %d: %v, %+v", try, err, report)
				}
				if err := transfer.Unfinished(t.Context(), target); !errors.Is(err, transfer.ErrUnfinished) {
					t.Errorf("after a try it is %v", err)
				}
			}
			if _, err := transfer.Copy(t.Context(), source, target, transfer.Options{From: "elsewhere"}); !errors.Is(err, transfer.ErrUnfinished) {
				t.Errorf("a copy from elsewhere goes on: %v", err)
			}
			if _, err := transfer.Copy(t.Context(), source, target, transfer.Options{From: "here", Merge: true}); !errors.Is(err, transfer.ErrUnfinished) {
				t.Errorf("it goes on as a merge: %v", err)
			}
			if _, err := transfer.Copy(t.Context(), target, kinds["bolt"](t), transfer.Options{From: "there"}); !errors.Is(err, transfer.ErrUnfinished) {
				t.Errorf("half a copy is copied: %v", err)
			}
			report := copied(t, source, target, transfer.Options{})
			if report.Added != 500 || report.Rows != 2500 { // the third try had two batches, of which one was there
				t.Errorf("the last report is %+v", report)
			}
			same(t, target, source)
		})
	}
}

func TestADestinationWithOtherTasksIsRefused(t *testing.T) {
	source := filled(t, kinds["bolt"](t), 50)
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			target, other := open(t), row(task.NewIDs([32]byte{9}), 4)
			if _, err := target.Insert(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			before := rows(t, target)
			if _, err := transfer.Copy(t.Context(), source, target, transfer.Options{From: "here"}); !errors.Is(err, transfer.ErrNotEmpty) {
				t.Errorf("the copy ends with %v", err)
			}
			if d := cmp.Diff(rows(t, target), before, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			if err := transfer.Unfinished(t.Context(), target); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHowTheNodesOfTheSourceCoordinateIsNotCopied(t *testing.T) {
	source := filled(t, kinds["bolt"](t), 50)
	if err := source.SetSetting(t.Context(), storage.CoordinationSetting, []byte("that of the source")); err != nil {
		t.Fatal(err)
	}
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			for _, own := range [][]byte{nil, []byte("its own")} {
				target := open(t)
				if err := target.SetSetting(t.Context(), storage.CoordinationSetting, own); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second copy has nothing to do
					if report := copied(t, source, target, transfer.Options{}); !report.Complete || len(report.Differences) > 0 || report.Settings != 2 {
						t.Errorf("the copy is %+v", report)
					}
					if got, err := target.Setting(t.Context(), storage.CoordinationSetting); err != nil || string(got) != string(own) {
						t.Errorf("the destination has %q, %v, want %q", got, err, own)
					}
				}
			}
		})
	}
}

func TestAMergeKeepsWhatTheDestinationHas(t *testing.T) {
	source := filled(t, kinds["bolt"](t), 50)
	all := rows(t, source)
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			target := open(t)
			ids := task.NewIDs([32]byte{9})
			stranger, sameKey, sameID, sameRow := row(ids, 1), row(ids, 0), row(ids, 3), all[11].Clone()
			sameKey.Type, sameKey.Key = all[1].Type, all[1].Key
			sameID.ID = all[2].ID
			if _, err := target.Insert(t.Context(), stranger, sameKey, sameID, sameRow); err != nil {
				t.Fatal(err)
			}
			if err := target.SetSetting(t.Context(), "pauses", []byte("mine")); err != nil {
				t.Fatal(err)
			}
			report := copied(t, source, target, transfer.Options{Merge: true})
			want := []transfer.Difference{
				{Kind: transfer.Taken, ID: all[1].ID, Detail: sameKey.ID.String()},
				{Kind: transfer.Different, ID: all[2].ID, Detail: report.Differences[1].Detail},
				{Kind: transfer.Setting, Detail: "pauses"},
			}
			if d := cmp.Diff(report.Differences, want); d != "" || report.Added != 47 {
				t.Errorf("%d were added\n%s", report.Added, d)
			}
			for _, mine := range []*task.Task{stranger, sameKey, sameID} {
				got, err := target.Get(t.Context(), mine.ID)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(got, mine, cmpopts.EquateEmpty()); d != "" {
					t.Error(d)
				}
			}
			if got := len(rows(t, target)); got != 51 {
				t.Errorf("there are %d rows", got)
			}
		})
	}
}

// lossy is a store that does not keep everything as it is given.
type lossy struct {
	store
	spoil func([]*task.Task) []*task.Task
}

func (l lossy) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	if _, err := l.store.Insert(ctx, l.spoil(slices.Clone(ts))...); err != nil {
		return nil, err
	}
	return make([]storage.Inserted, len(ts)), nil
}

func TestACopyThatIsNotTheSameIsFound(t *testing.T) {
	source := filled(t, kinds["bolt"](t), 40)
	all := rows(t, source)
	edited := func(edit func(*task.Task)) func([]*task.Task) []*task.Task {
		return func(ts []*task.Task) []*task.Task {
			ts[5] = ts[5].Clone()
			edit(ts[5])
			return ts
		}
	}
	different := func(fields string) []transfer.Difference {
		return []transfer.Difference{{Kind: transfer.Different, ID: all[5].ID, Detail: fields}}
	}
	extra := row(task.NewIDs([32]byte{9}), 1)
	for name, c := range map[string]struct {
		spoil func([]*task.Task) []*task.Task
		want  []transfer.Difference
	}{
		"another payload": {edited(func(t *task.Task) { t.Payload = []byte("x") }), different("Payload")},
		"no result":       {edited(func(t *task.Task) { t.Result = nil; t.Attempt++ }), different("Attempt, Result")},
		"a lost row":      {func(ts []*task.Task) []*task.Task { return ts[1:] }, []transfer.Difference{{Kind: transfer.Missing, ID: all[0].ID}}},
		"one more row":    {func(ts []*task.Task) []*task.Task { return append(ts, extra) }, []transfer.Difference{{Kind: transfer.Extra, ID: extra.ID}}},
		"another order": {func(ts []*task.Task) []*task.Task {
			ts[7], ts[8] = ts[8], ts[7]
			return ts
		}, []transfer.Difference{{Kind: transfer.Order, ID: all[7].ID}}},
	} {
		t.Run(name, func(t *testing.T) {
			target := kinds["pebble"](t)
			report, err := transfer.Copy(t.Context(), source, lossy{target, c.spoil}, transfer.Options{From: "here"})
			if err != nil || report.Complete {
				t.Errorf("%v, complete: %t", err, report.Complete)
			}
			if d := cmp.Diff(report.Differences, c.want); d != "" {
				t.Error(d)
			}
			if (report.Source == report.Target) != (name == "another order") {
				t.Errorf("the checksums are %v and %v", report.Source, report.Target)
			}
			if err := transfer.Unfinished(t.Context(), target); !errors.Is(err, transfer.ErrUnfinished) {
				t.Errorf("afterwards it is %v", err)
			}
		})
	}
}

func TestThousandsOfDifferencesAreCounted(t *testing.T) {
	source := filled(t, kinds["bolt"](t), 2000)
	target := lossy{kinds["bolt"](t), func([]*task.Task) []*task.Task { return nil }}
	report, err := transfer.Copy(t.Context(), source, target, transfer.Options{From: "here"})
	if err != nil {
		t.Fatal(err)
	}
	if reported := int64(len(report.Differences)); reported == 0 || reported+report.More != 2000 {
		t.Errorf("%d are reported and %d more", reported, report.More)
	}
}
