package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/filter"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// tasksPage is how many tasks a page of the list has.
const tasksOnPage = 50

// queryPatience is how long the list waits for a query. A longer one is shown by a later refresh.
const queryPatience = 3 * time.Second

func tasksPage() page {
	return page{path: "tasks", name: "Tasks", key: "t", template: "tasks", every: 3 * time.Second, load: loadTasks}
}

// taskList has the values of the page.
type taskList struct {
	Query   string
	Problem string // why the query was refused
	Slow    bool   // the query is still under way
	Tasks   []*taskenginev1.Task
	Found   string // how the tasks were found
	Next    string // the link to the next page; "" at the end
	First   bool   // this is the first page
	Fields  []filter.Field
	Chips   []chip
	Bulk    string // the link to change all that match
}

// chip is a query that is often wanted.
type chip struct{ Name, Query string }

func chips() []chip {
	return []chip{
		{"all", ""},
		{"waiting", "state=waiting"},
		{"ready", "state=submitted"},
		{"running", "state=processing"},
		{"in error", "state=error"},
		{"failed", "state=failed"},
		{"done", "state=done"},
		{"changed in the last hour", "since=1h"},
	}
}

func loadTasks(v *view) (any, error) {
	form := v.URL.Query()
	query := strings.TrimSpace(form.Get("q"))
	if id := query; len(id) == 36 && !strings.ContainsAny(id, "= ~<>!") { // an id is a query, too
		v.redirect = v.d.Base + "task/" + url.PathEscape(id)
		return nil, nil
	}
	l := &taskList{Query: query, First: form.Get("after") == "", Fields: filter.Fields(), Chips: chips()}
	v.command = commandLine("task", "list")
	if query != "" {
		v.command = commandLine("task", "list", "--where", query)
		v.title = query
	}
	types, err := v.types()
	if err != nil {
		return nil, err
	}
	// Durations in a filter count from the first page.
	req := &taskenginev1.ListRequest{Types: types, Limit: tasksOnPage, PageToken: form.Get("after"), Where: query}
	if fixed := form.Get("where"); fixed != "" && !l.First {
		req.Where = fixed
	}
	got, err := shared(v, "list\x00"+req.GetWhere()+"\x00"+req.GetPageToken(), queryPatience, func(ctx context.Context) (*taskenginev1.ListResponse, error) {
		return v.api().List(ctx, req)
	})
	switch code := connect.CodeOf(err); {
	case err != nil && (code == connect.CodeInvalidArgument || code == connect.CodePermissionDenied):
		l.Problem = errorText(err)
		return l, nil
	case err != nil:
		return nil, err
	case got.Value == nil:
		l.Slow = true
		return l, nil
	}
	l.Tasks = got.Value.GetTasks()
	if query != "" {
		l.Found = howFound(got.Value.GetRead(), got.Value.GetTotal(), got.Value.GetIndex())
		l.Bulk = v.d.Base + "bulk/new?q=" + url.QueryEscape(query)
	}
	if next := got.Value.GetNextPageToken(); next != "" {
		l.Next = v.d.Base + "tasks?q=" + url.QueryEscape(query) + "&where=" + url.QueryEscape(got.Value.GetWhere()) + "&after=" + url.QueryEscape(next)
	}
	return l, nil
}

// howFound says whether an index was read, and how many tasks.
func howFound(read, total int64, index string) string {
	of := ""
	switch {
	case total > 0:
		of = " of " + number(total)
	case index == "":
		of = " (how many there are is not known)"
	}
	if index == "" {
		return fmt.Sprintf("Read without an index, from the newest task on: %s tasks%s.", number(read), of)
	}
	return fmt.Sprintf("Read by the index of %s: %s tasks%s.", index, number(read), of)
}

// types returns the types that the token is for; none stands for all.
func (v *view) types() ([]string, error) {
	if v.token == nil || v.token.IsForAll() {
		return nil, nil
	}
	got, err := shared(v, "types", nodesPatience, func(ctx context.Context) (*taskenginev1.ListTypesResponse, error) {
		return v.api().ListTypes(ctx, &taskenginev1.ListTypesRequest{})
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range got.Value.GetTypes() {
		names = append(names, t.GetName())
	}
	if len(names) == 0 {
		return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("the token %s is for tasks of the types %s, and there is none of these", v.token.Name, strings.Join(v.token.Types, ", ")))
	}
	return names, nil
}
