package cli

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// treeNode has the tree of the task i, and cancels it by two requests.
type treeNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	asked int // how often the cancel of a tree was asked for
}

func (*treeNode) Tree(_ context.Context, req *taskenginev1.TreeRequest) (*taskenginev1.TreeResponse, error) {
	if req.GetId() == "late" {
		return &taskenginev1.TreeResponse{Tasks: []*taskenginev1.TreeTask{
			{Task: &taskenginev1.Task{Id: "late", Type: "t", State: "waiting", After: &taskenginev1.After{Tasks: []string{"a", "b"}}}},
			{Depth: 1, Task: &taskenginev1.Task{Id: "l", Type: "t", State: "done", Parent: &taskenginev1.Parent{Id: "late", Name: "p"}}},
			{Depth: 1, Task: &taskenginev1.Task{Id: "m", Type: "t", State: "done", Parent: &taskenginev1.Parent{Id: "late", Name: "p", Index: 1}, After: &taskenginev1.After{Tasks: []string{"a", "b", "c", "d", "e"}}}},
		}}, nil
	}
	if req.GetId() != "i" {
		return nil, connect.NewError(connect.CodeNotFound, nil)
	}
	below := func(id, parent, name string, index, depth uint32) *taskenginev1.TreeTask {
		return &taskenginev1.TreeTask{Depth: depth, Task: &taskenginev1.Task{
			Id: id, Type: "t", State: "error", Parent: &taskenginev1.Parent{Id: parent, Name: name, Index: index},
		}}
	}
	all := []*taskenginev1.TreeTask{below("i", "above", "x", 1, 0), below("j", "i", "page", 7, 1), below("k", "j", "line", 0, 2)}
	if req.GetLimit() > 2 && req.GetPageToken() == "" { // in pages of two
		return &taskenginev1.TreeResponse{Tasks: all[:2], NextPageToken: "2"}, nil
	}
	if req.GetPageToken() == "2" {
		return &taskenginev1.TreeResponse{Tasks: all[2:]}, nil
	}
	return &taskenginev1.TreeResponse{Tasks: all[:req.GetLimit()], NextPageToken: "3"}, nil
}

func (n *treeNode) Cancel(_ context.Context, req *taskenginev1.CancelRequest) (*taskenginev1.CancelResponse, error) {
	res := &taskenginev1.CancelResponse{Task: &taskenginev1.Task{Id: req.GetId(), Error: req.GetReason()}}
	if req.GetTree() {
		n.asked++
		res.Cancelled, res.More = 20, n.asked%2 == 1
		if req.GetId() == "far" {
			res.Missing = 3
		}
	}
	return res, nil
}

// Why answers that i waits for its children j, k and a gone one, j for k, which is in error, and loop for itself.
func (*treeNode) Why(_ context.Context, req *taskenginev1.WhyRequest) (*taskenginev1.WhyResponse, error) {
	reasons := map[string]*taskenginev1.Reason{
		"i":    {Code: "children", Text: "it waits for 3 children", Holders: []string{"j", "gone", "k"}},
		"j":    {Code: "behind", Text: "k is before it", Head: "k"},
		"k":    {Code: "ended", Text: "it is in error"},
		"loop": {Code: "behind", Text: "a mistake", Head: "loop"},
	}
	r := reasons[req.GetId()]
	if r == nil {
		return nil, connect.NewError(connect.CodeNotFound, nil)
	}
	res := &taskenginev1.WhyResponse{Task: &taskenginev1.Task{Id: req.GetId(), Type: "t", State: "waiting"}, Reasons: []*taskenginev1.Reason{r}}
	if req.GetId() == "k" {
		res.Silent = []*taskenginev1.SilentNode{{Node: "n2", Problem: "silence"}}
	}
	return res, nil
}

func TestATreeIsExplained(t *testing.T) {
	_, h := taskenginev1connect.NewTaskServiceHandler(new(treeNode))
	s := httptest.NewServer(h)
	defer s.Close()
	env := []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}
	for args, want := range map[string]struct {
		code  int
		lines []string // how they begin
		said  string
	}{
		"i":               {exit.Partial, []string{"i  t", "  children", "    j  t", "      behind", "        k  t", "          ended"}, "n2 did not answer"},
		"i --limit 2":     {exit.OK, []string{"i  t", "  children", "    j  t", "      behind"}, "only 2 tasks are shown"},
		"loop":            {exit.OK, []string{"loop  t", "  behind"}, ""},
		"none":            {exit.NotFound, nil, "none"},
		"i --output json": {exit.Partial, []string{`{"task":{"id":"i"`, `{"task":{"id":"j"`, `{"task":{"id":"k"`, `{"silent":[{"node":"n2"`}, "n2 did not answer"},
	} {
		got := cli(t, env, "", append([]string{"task", "why", "--tree"}, strings.Fields(args)...)...)
		lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
		if got.stdout == "" {
			lines = nil
		}
		ok := got.code == want.code && strings.Contains(got.stderr, want.said) && len(lines) == len(want.lines)
		for i := 0; ok && i < len(lines); i++ {
			ok = strings.HasPrefix(lines[i], want.lines[i])
		}
		if !ok {
			t.Errorf("task why --tree %s: %+v", args, got)
		}
	}
}

func TestATreeIsShownAndCancelled(t *testing.T) {
	_, h := taskenginev1connect.NewTaskServiceHandler(new(treeNode))
	s := httptest.NewServer(h)
	defer s.Close()
	env := []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}
	for args, want := range map[string]struct {
		code         int
		stdout, said string
	}{
		"tree i":                      {exit.OK, "\n-         i   error  t     -    -    -\npage 7    j   error  t     -    -    -\n  line 0  k   error  t     -    -    -\n", ""},
		"tree i --limit 2":            {exit.OK, "CHILD", "only 2 tasks are shown"},
		"tree i --output json":        {exit.OK, `"parent":{"id":"j","name":"line","index":0},"children":[],"followers":[]},"depth":2}` + "\n", ""},
		"tree late":                   {exit.OK, "late  waiting  t     -    -    -     -      a, b\np 0    l     done     t     -    -    -     -\np 1    m     done     t     -    -    -     -      a, b, c and 2 more\n", ""},
		"tree late --output json":     {exit.OK, `"after":{"tasks":["a","b"]`, ""},
		"tree none":                   {exit.NotFound, "", "none"},
		"cancel i --tree":             {exit.OK, "40 tasks were cancelled\n", ""},
		"cancel far --tree":           {exit.Failure, "40 tasks were cancelled\n", "3 tasks that have not ended were not found"},
		"cancel i --tree -o json":     {exit.OK, `"cancelled":40,"missing":0}` + "\n", ""},
		"cancel i --reason r":         {exit.OK, "i", ""},
		"cancel i --tree --version 1": {exit.Usage, "", "version"},
	} {
		got := cli(t, env, "", append([]string{"task"}, strings.Fields(args)...)...)
		if got.code != want.code || !strings.Contains(got.stdout, want.stdout) || !strings.Contains(got.stderr, want.said) {
			t.Errorf("task %s: %+v", args, got)
		}
	}
}
