package sharded_test

import (
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// treeRequest is a request with children: three in the database of their parent, and three that an ordering key binds.
func treeRequest(r engine.Request, name string) engine.Request {
	r.Type, r.Payload, r.Children = "tree", []byte("1"), new(task.NewChildren)
	var near, far []engine.Request
	for i := range 3 {
		child := engine.Request{Type: "tree", Payload: []byte("0")}
		near = append(near, child)
		child.OrderingKey = fmt.Sprint("key ", name, i)
		far = append(far, child)
	}
	r.Children.Sets = []task.ChildRequests{{Name: "near", Requests: near}, {Name: "far", Requests: far}}
	r.Children.Waits = []task.ChildrenWait{{Name: "far"}}
	return r
}

func TestARolledBackTransactionLeavesNothingOfATaskWithChildrenInTwoDatabases(t *testing.T) {
	l := startLetters(t)
	for i := range 4 {
		r := treeRequest(engine.Request{Key: fmt.Sprint(i)}, fmt.Sprint(i))
		err := l.store.UpdateIn(t.Context(), i%2, func(tx storage.Tx) error {
			if _, err := l.SubmitTx(t.Context(), tx, r); err != nil {
				t.Error(err)
			}
			return errFault
		})
		if err == nil {
			t.Error("the transaction has committed")
		}
	}
	if n := l.live("tree") + l.live("taskengine.relay"); n != 0 {
		t.Errorf("there are %d tasks", n)
	}
}
