package storagetest_test

import (
	"errors"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

func TestFaultyStorePassesTheSuiteWhileNothingFails(t *testing.T) {
	storagetest.Run(t, func(testing.TB) storage.Store {
		return storagetest.Faulty(memory.New(), func(storagetest.Call) storagetest.Fault { return storagetest.Fault{} })
	})
}

func TestFaultyStoreFailsAsAsked(t *testing.T) {
	fault := errors.New("fault")
	for _, c := range []struct {
		name  string
		on    storagetest.Call
		fault storagetest.Fault
		inTx  bool
		done  bool
	}{
		{"a verb fails before", storagetest.Insert, storagetest.Fault{Before: fault}, false, false},
		{"a verb fails after", storagetest.Insert, storagetest.Fault{After: fault}, false, true},
		{"a verb fails before in a transaction", storagetest.Insert, storagetest.Fault{Before: fault}, true, false},
		{"a verb fails after in a transaction", storagetest.Insert, storagetest.Fault{After: fault}, true, false},
		{"a transaction fails before", storagetest.Update, storagetest.Fault{Before: fault}, true, false},
		{"a transaction fails after", storagetest.Update, storagetest.Fault{After: fault}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			under := memory.New()
			s := storagetest.Faulty(under, func(call storagetest.Call) storagetest.Fault {
				if call == c.on {
					return c.fault
				}
				return storagetest.Fault{}
			})
			row := &task.Task{ID: task.ID{1}, Version: 1, State: task.Waiting, Type: "mail"}
			var err error
			if c.inTx {
				err = s.Update(t.Context(), func(tx storage.Tx) error {
					tx.OnCommit(func() { t.Error("the hook ran") })
					_, _ = tx.Insert(t.Context(), row) // its error must be enough
					return nil
				})
			} else {
				_, err = s.Insert(t.Context(), row)
			}
			if !errors.Is(err, fault) {
				t.Errorf("got %v, want the fault", err)
			}
			if _, err := under.Get(t.Context(), row.ID); (err == nil) != c.done {
				t.Errorf("afterwards: %v, want it done: %t", err, c.done)
			}
		})
	}
}
