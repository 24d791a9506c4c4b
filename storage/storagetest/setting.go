package storagetest

import (
	"fmt"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// settingNames are names that are easily confused, with each other or with something else in a
// store.
var settingNames = []string{"a", "ab", "a/b", "A", "", "\x00", "a\x00", "\xff", "日本", "eq", "seq", "format", "etting/a", "setting/a"}

var settingsCases = []testCase{
	{"a setting that was never set is nil", func(f *fixture) {
		for _, name := range settingNames {
			f.setting(name, nil)
		}
	}},
	{"a setting is what it was set to last", func(f *fixture) {
		for i, name := range settingNames {
			f.set(name, []byte("first"))
			f.set(name, fmt.Append(nil, i))
		}
		for i, name := range settingNames {
			f.setting(name, fmt.Append(nil, i))
		}
		large := pattern(100_000)
		f.set("a", large)
		f.setting("a", large)
	}},
	{"a setting set to nil is gone and the others are not", func(f *fixture) {
		for _, name := range settingNames {
			f.set(name, []byte(name+"?"))
		}
		for i, name := range settingNames {
			for range 2 {
				f.set(name, nil)
				f.setting(name, nil)
			}
			for _, other := range settingNames[i+1:] {
				f.setting(other, []byte(other+"?"))
			}
		}
		f.set("a", []byte("again"))
		f.setting("a", []byte("again"))
	}},
	{"a setting may be empty, which is not nil", func(f *fixture) {
		f.set("a", []byte{})
		f.setting("a", []byte{})
	}},
	{"nothing of a setting is shared with the caller", func(f *fixture) {
		value := []byte("value")
		f.set("a", value)
		value[0] = 'X'
		got, err := f.Store.(storage.Settings).Setting(f.ctx(), "a")
		if err != nil {
			f.Fatal(err)
		}
		got[1] = 'X'
		f.setting("a", []byte("value"))
	}},
	{"settings and tasks do not touch each other", func(f *fixture) {
		for _, name := range settingNames {
			f.set(name, []byte(name))
		}
		f.together()
		t := f.row(task.Submitted, everything)
		f.put(t)
		f.step(t, task.Change{To: task.Processing, At: at(1)})
		for _, name := range settingNames {
			f.setting(name, []byte(name))
			f.set(name, nil)
		}
		f.same(f.get(t.ID), t)
		f.set("a", []byte("stays"))
		equal(f, "gone", f.remove(t.Ref()), []bool{true})
		f.setting("a", []byte("stays"))
		next := f.row(task.Submitted)
		if f.put(next); next.Seq <= t.Seq {
			f.Fatalf("number %d follows %d", next.Seq, t.Seq)
		}
	}},
	{"settings set by many at once are all kept", func(f *fixture) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 5 {
					err := f.Store.(storage.Settings).SetSetting(f.ctx(), fmt.Sprint(i), fmt.Append(nil, n))
					if err != nil {
						f.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for i := range 8 {
			f.setting(fmt.Sprint(i), []byte("4"))
		}
	}},
	{"settings are there after reopening", func(f *fixture) {
		if _, ok := f.Store.(Reopener); !ok {
			f.Log("the store is no Reopener: nothing to see")
			return
		}
		f.changeSettings(f.reopen)
	}},
	{"settings survive a power cut", func(f *fixture) {
		if _, ok := f.Store.(Crasher); !ok {
			f.Log("the store is no Crasher: nothing to see")
			return
		}
		f.changeSettings(f.crash)
	}},
}

// changeSettings sets, replaces and removes settings, and calls again and checks them after each.
func (f *fixture) changeSettings(again func()) {
	f.Helper()
	f.set("stays", []byte("here"))
	for _, value := range [][]byte{[]byte("one"), {}, nil, []byte("two"), nil} {
		f.set("a", value)
		again()
		f.setting("a", value)
	}
	f.setting("stays", []byte("here"))
}

// set changes a setting.
func (f *fixture) set(name string, value []byte) {
	f.Helper()
	if err := f.Store.(storage.Settings).SetSetting(f.ctx(), name, value); err != nil {
		f.Fatal(err)
	}
}

// setting fails the test unless a setting has this value; nil and empty differ.
func (f *fixture) setting(name string, want []byte) {
	f.Helper()
	got, err := f.Store.(storage.Settings).Setting(f.ctx(), name)
	if err != nil {
		f.Fatal(err)
	}
	equal(f, fmt.Sprintf("setting %q", name), got, want)
}
