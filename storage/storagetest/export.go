package storagetest

import (
	"errors"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// export returns the content of a store that is an Exporter.
func (f *fixture) export() (settings map[string]string, ts []*task.Task) {
	f.Helper()
	var names []string
	settings = make(map[string]string)
	err := f.Store.(storage.Exporter).Export(f.ctx(), func(name string, value []byte) error {
		if len(ts) > 0 {
			f.Errorf("the setting %q comes after rows", name)
		}
		names, settings[name] = append(names, name), string(value)
		return nil
	}, func(t *task.Task) error {
		ts = append(ts, t)
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	if !slices.IsSorted(names) || len(settings) != len(names) {
		f.Errorf("the settings come as %q", names)
	}
	return settings, ts
}

var exportCases = []testCase{
	{"nothing is exported of an empty store", func(f *fixture) {
		settings, ts := f.export()
		equal(f, "rows and settings", len(ts)+len(settings), 0)
	}},
	{"rows are exported whole and in the order of insertion, whatever their state", func(f *fixture) {
		f.together()
		var want []*task.Task
		for _, s := range task.States() {
			for _, edit := range remarkable() {
				t := f.row(s, edit)
				if t.Key != "" {
					t.Key += s.String()
				}
				if !s.Live() && s != task.Error {
					t.Turn = task.Unordered // an ended row has no turn
				}
				if len(t.Payload) < 1<<20 || s == task.Submitted || s == task.Done {
					want = append(want, t)
				}
			}
		}
		slices.Reverse(want)                      // the order of ids is another one
		for some := range slices.Chunk(want, 4) { // rows of megabytes in one call may take longer than a store waits
			f.put(some...)
		}
		_, got := f.export()
		if len(got) != len(want) {
			f.Fatalf("%d rows are exported of %d", len(got), len(want))
		}
		for i, t := range got {
			f.same(t, want[i])
		}
	}},
	{"what is gone is not exported, and what changed is as it is now", func(f *fixture) {
		kept, gone := f.row(task.Submitted), f.row(task.Submitted)
		f.put(gone, kept)
		f.remove(gone.Ref())
		f.step(kept, task.Change{To: task.Processing, At: at(1), Owner: task.ID{3}})
		f.step(kept, task.Change{To: task.Done, At: at(2), Result: []byte("fine")})
		_, got := f.export()
		equal(f, "rows", idsOf(got), []task.ID{kept.ID})
		f.same(got[0], f.get(kept.ID))
		equal(f, "result", string(got[0].Result), "fine")
	}},
	{"settings are exported, those that were removed are not", func(f *fixture) {
		s, ok := f.Store.(storage.Settings)
		if !ok {
			f.Fatal("a store that exports settings has some")
		}
		want := map[string]string{"": "no name", "a/b": "", "z\x00\xff": "\x00binary"}
		for name, value := range want {
			if err := s.SetSetting(f.ctx(), name, []byte(value)); err != nil {
				f.Fatal(err)
			}
		}
		for _, value := range [][]byte{[]byte("x"), nil} {
			if err := s.SetSetting(f.ctx(), "gone", value); err != nil {
				f.Fatal(err)
			}
		}
		f.put(f.row(task.Submitted))
		got, ts := f.export()
		equal(f, "rows", len(ts), 1)
		if !maps.Equal(got, want) {
			f.Errorf("the settings are %q, want %q", got, want)
		}
	}},
	{"an export is of one moment", func(f *fixture) {
		ts := f.rows(500, task.Submitted, nil)
		f.put(ts...)
		seen, others := 0, make(chan error, 1)
		err := f.Store.(storage.Exporter).Export(f.ctx(), func(string, []byte) error { return nil }, func(*task.Task) error {
			if seen++; seen == 1 { // without waiting for it: it may have to wait for the export
				go func() {
					_, err := f.Insert(f.ctx(), f.row(task.Submitted))
					if err == nil {
						_, err = f.Delete(f.ctx(), ts[250].Ref(), ts[499].Ref())
					}
					others <- err
				}()
			}
			return nil
		})
		if err := errors.Join(err, <-others); err != nil {
			f.Fatal(err)
		}
		equal(f, "rows of that moment", seen, 500)
		_, after := f.export()
		equal(f, "rows now", len(after), 499)
	}},
	{"the error of a function ends an export and is returned", func(f *fixture) {
		f.put(f.rows(2000, task.Submitted, nil)...)
		if s, ok := f.Store.(storage.Settings); ok {
			if err := s.SetSetting(f.ctx(), "a", []byte("x")); err != nil {
				f.Fatal(err)
			}
		}
		enough, calls := errors.New("enough"), 0
		stop := func() error { calls++; return enough }
		exporter := f.Store.(storage.Exporter)
		err := exporter.Export(f.ctx(), func(string, []byte) error { return nil }, func(*task.Task) error { return stop() })
		if err != enough || calls != 1 {
			f.Fatalf("after %d rows Export returned %v", calls, err)
		}
		err = exporter.Export(f.ctx(), func(string, []byte) error { return stop() }, func(*task.Task) error { return nil })
		if err != enough || calls != 2 {
			f.Fatalf("after %d calls Export returned %v", calls, err)
		}
		_, ts := f.export() // the store still works
		equal(f, "rows", len(ts), 2000)
	}},
}
