package storagetest

import (
	"math"
	"time"

	"github.com/taskengine/taskengine/storage"
)

var rulesCases = []testCase{
	{"the rules of a type are those that were set last", func(f *fixture) {
		first := storage.TypeRules{Type: "a", Priority: 1, MaxPayload: 10}
		last := storage.TypeRules{
			Type: "a", Priority: 9, MaxPayload: math.MaxInt32, QueueTimeout: time.Millisecond, TotalTimeout: 1000 * time.Hour,
			MaxResult: 64 << 20, KeepDone: -1, Inherits: true, MaxLateness: 30 * time.Second, Remember: 14 * 24 * time.Hour,
			Keyed:  []storage.Keyed{{Limit: "partner", Path: []string{"payload", "order", "pärtner"}}, {Limit: "key", Path: []string{"key"}}},
			Unique: storage.UniqueRules{OnConflict: "replace", By: [][]string{{"payload", "order", "ïd"}, {"ordering_key"}}},
		}
		other := storage.TypeRules{Type: "日本 ", MaxPayload: 0, MaxResult: 7, KeepDone: 400 * 24 * time.Hour}
		f.setRules(first, other)
		f.rules("a", first)
		f.setRules(last)
		f.rules("a", last)
		f.rules(other.Type, other)
		f.setRules(first)
		f.rules("a", first)
		f.setRules()
		f.rules("a", first)
	}},
	{"a type without rules has those of the type without a name", func(f *fixture) {
		all := storage.TypeRules{Priority: 7, MaxPayload: 3}
		f.setRules(storage.TypeRules{Type: "a", Priority: 1}, all)
		f.rules("b", all)
		f.rules("", all)
		f.rules("a", storage.TypeRules{Type: "a", Priority: 1})
	}},
}

// setRules changes the rules of types.
func (f *fixture) setRules(rules ...storage.TypeRules) {
	f.Helper()
	if err := f.Store.(storage.Ruled).SetRules(f.ctx(), rules...); err != nil {
		f.Fatal(err)
	}
}

// rules fails the test unless these are the rules for a type.
func (f *fixture) rules(typ string, want storage.TypeRules) {
	f.Helper()
	got, err := f.Store.(storage.Ruled).Rules(f.ctx(), typ)
	if err != nil {
		f.Fatal(err)
	}
	equal(f, "rules of "+typ, got, want)
}
