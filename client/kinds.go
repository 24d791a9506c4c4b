package client

import (
	"context"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// ErrorFilter selects the tasks with errors that [Client.ErrorKinds] sums up. The zero value selects all in [StateError].
type ErrorFilter struct {
	Types []string // none: all
	Where string   // as in [TaskFilter]; if it names no states, only tasks in [StateError]
	Limit uint32   // how many kinds are returned, at most 1000; 0: 100
}

// ErrorKinds are the errors of tasks, by their kinds.
type ErrorKinds struct {
	Kinds    []ErrorKind // those of most tasks first
	Tasks    int64       // with an error, also of kinds that are left out
	Others   int64       // with an error of a kind that is left out
	Read     int64       // how many tasks the node has read at least
	Complete bool        // all tasks were read; if not, the newest were
	Index    string      // the index that found or counted the tasks, by its field; "" if tasks of all states were read
	Total    int64       // of how many tasks the read ones were; 0 if the store does not count them, or an index has just the tasks that the filter selects
}

// ErrorKind are the tasks with a newest error of one kind. Errors of a kind differ only in numbers, ids and addresses.
type ErrorKind struct {
	Kind    string // for a filter: error.kind=...
	Pattern string // the error without numbers, ids and addresses
	Tasks   int64
	First   time.Time // the newest change of the task that changed first
	Last    time.Time // and of the one that changed last
	Types   []string  // at most 16
	Nodes   []string  // that ran the newest attempts, at most 16
	Sample  task.ID   // of the newest of the tasks
	Error   string    // of that
}

// ErrorKinds returns the kinds of errors of tasks. Its tasks are those that [Client.Tasks] lists with error.kind=KIND in the filter.
func (c *Client) ErrorKinds(ctx context.Context, f ErrorFilter) (*ErrorKinds, error) {
	req := &taskenginev1.ListErrorsRequest{Types: f.Types, Where: f.Where, Limit: f.Limit}
	res, err := call[taskenginev1.ListErrorsResponse](ctx, c, taskenginev1connect.TaskServiceListErrorsProcedure, req, true)
	if err != nil {
		return nil, err
	}
	var d decoder
	kinds := d.errorKinds(res)
	if d.err != nil {
		return nil, d.err
	}
	return kinds, nil
}

func (d *decoder) errorKinds(m *taskenginev1.ListErrorsResponse) *ErrorKinds {
	return &ErrorKinds{Kinds: all(m.GetKinds(), d.errorKind), Tasks: m.GetTasks(), Others: m.GetOthers(), Read: m.GetRead(), Complete: m.GetComplete(), Index: m.GetIndex(), Total: m.GetTotal()}
}

func (d *decoder) errorKind(m *taskenginev1.ErrorKind) ErrorKind {
	return ErrorKind{
		Kind: m.GetKind(), Pattern: m.GetPattern(), Tasks: m.GetTasks(), First: timeOf(m.GetFirst()), Last: timeOf(m.GetLast()),
		Types: m.GetTypes(), Nodes: m.GetNodes(), Sample: d.id(m.GetSample()), Error: m.GetError(),
	}
}
