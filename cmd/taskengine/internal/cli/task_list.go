package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// filterFlags are the flags of commands that select many tasks.
type filterFlags struct{ states, types []string }

func (f *filterFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "only tasks in this state; may be given more than once")
	cmd.Flags().StringSliceVar(&f.types, "type", nil, "only tasks of this type; may be given more than once")
}

func newTaskList(a *app) *cobra.Command {
	var selects filterFlags
	var limit int
	var all bool
	var key, where string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, the newest first",
		Long: "List tasks without payload and result, the newest first. With -o json, each is one line.\n\n" +
			"--where selects tasks by terms that all hold, such as\n\n    --where 'error~\"connection refused\" attempt>=3 since=2h payload.customer.id=17'\n\nThe fields are\n\n" + fieldsOfFilters(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return exit.Errorf(exit.Usage, "--limit is %d, and must be 1 or more", limit)
			}
			return a.with(func(c *client) error {
				pages := &pages{client: c, filter: selects, key: key, where: where, left: limit, all: all}
				return a.listTasks(cmd, pages)
			})
		},
	}
	selects.add(cmd)
	cmd.Flags().StringVar(&key, "key", "", "only tasks with this key")
	cmd.Flags().StringVar(&where, "where", "", "only tasks that this filter selects")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	return cmd
}

// fieldsOfFilters describes the fields of filters, one in a line.
func fieldsOfFilters() string {
	var b strings.Builder
	for _, f := range filter.Fields() {
		fmt.Fprintf(&b, "    %-14s %-24s %s\n", f.Name, strings.Join(f.Operators, " "), f.Is)
	}
	return b.String()
}

func (a *app) listTasks(cmd *cobra.Command, p *pages) error {
	var rows []*taskenginev1.Task
	ctx, cancel := context.WithCancel(cmd.Context())
	read := p.ahead(ctx)
	defer func() { // then the request has ended
		cancel()
		for range read {
		}
	}()
	for got := range read {
		switch {
		case got.err != nil:
			return got.err
		case !a.json():
			rows = append(rows, got.tasks...)
		default:
			if err := a.showTasks(got.tasks...); err != nil {
				return err
			}
		}
	}
	if !a.json() {
		if err := a.showTasks(rows...); err != nil {
			return err
		}
	}
	if p.token != "" {
		a.note("there are more; --all or --limit show them")
	}
	if p.where != "" {
		a.note("%s", howFound(p.read, p.total, p.index))
	}
	return nil
}

// pages goes through the pages of a list.
type pages struct {
	client *client
	filter filterFlags
	key    string // only tasks with it; "" for all
	where  string // only tasks that this filter selects; "" for all
	read   int64  // how many tasks the node has read, if there is a filter
	total  int64  // of how many, if that is known
	index  string // by which index
	left   int    // tasks wanted, unless all are
	all    bool
	begun  bool
	token  string // of the page after the last one
}

func (p *pages) more() bool { return (p.all || p.left > 0) && (!p.begun || p.token != "") }

// page is a page of a list, or why there is none.
type page struct {
	tasks []*taskenginev1.Task
	err   error
}

// ahead reads the pages up to the last one or an error, each while the one before is written. Nothing else uses p until they are all read.
func (p *pages) ahead(ctx context.Context) <-chan page {
	read := make(chan page)
	go func() {
		defer close(read)
		for p.more() {
			tasks, err := p.next(ctx)
			select {
			case read <- page{tasks, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return read
}

func (p *pages) next(ctx context.Context) ([]*taskenginev1.Task, error) {
	limit := server.MaxList
	if !p.all {
		limit = min(limit, p.left)
	}
	res, err := call(ctx, p.client, p.client.List, &taskenginev1.ListRequest{
		States: p.filter.states, Types: p.filter.types, Limit: uint32(limit), PageToken: p.token, Key: p.key, Where: p.where,
	})
	if err != nil {
		return nil, err
	}
	tasks := res.GetTasks()
	if p.key != "" { // a node of the version before does not know it
		tasks = slices.DeleteFunc(tasks, func(t *taskenginev1.Task) bool { return t.GetKey() != p.key })
	}
	p.begun, p.token = true, res.GetNextPageToken()
	p.where, p.read, p.total, p.index = res.GetWhere(), p.read+res.GetRead(), max(p.total, res.GetTotal()), res.GetIndex()
	p.left -= len(tasks)
	return tasks, nil
}
