package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// addFlags are the flags of `task add` that describe the task.
type addFlags struct {
	id, key, orderingKey, data string
	headers                    []string
	priority                   uint32
	in                         duration
	at, expiresAt              instant
	after                      []string
	afterAny                   bool
	wait                       bool
	timeout                    duration
	file                       string

	children, childrenName string
	count                  uint32
	orFailed               bool
	until                  instant
}

func newTaskAdd(a *app) *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add TYPE | --file FILE",
		Short: "Add a task, or a file of tasks",
		Long: `Add a task. When the command returns, the task is durable; its id is written. A
warning says if no live node has a handler for its type.

With --file, add one task for each line of a file (- for standard input). A line is a
JSON object:

  {"type": "mail", "data": {"to": "a@example.com"}, "key": "m-1"}

Its fields are type, data (any JSON) or payload_base64 (any bytes), id, key, ordering_key,
priority, at, in, expires_at, headers, after and after_any. TYPE is that of lines without one. Invalid lines are
reported with their numbers and left out. The same file may be loaded again: lines with an id
or a key are not added twice.

With --children, add children together with the task, which runs when they have ended. The file
has one child a line, as that of --file, without id and key. Up to 10,000 of them are added all
or not at all. More are added in parts: if that is interrupted, the same command, with an --id or
a --key, goes on.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && f.file == "" {
				return errors.New("want a TYPE, or --file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				if f.file == "" {
					return a.add(cmd, c, &f, args[0])
				} else if cmd.Flags().Changed("children") {
					return exit.Errorf(exit.Usage, "--children does not go with --file")
				}
				if err := onlyWithoutFile(cmd); err != nil {
					return err
				}
				return a.load(cmd.Context(), c, f.file, strings.Join(args, ""))
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "", "the payload: JSON, or @FILE or - for the bytes of a file or of standard input")
	flags.StringVar(&f.id, "id", "", "the task's id, a UUID; the task is added once however often it is asked for")
	flags.StringVar(&f.key, "key", "", "unique in its type, or with --ordering-key among the keys of that; if it is taken, nothing is added unless the type says otherwise")
	flags.StringVar(&f.orderingKey, "ordering-key", "", "tasks that share it run one at a time, in the order of their ready times")
	flags.Uint32Var(&f.priority, "priority", 0, "0 (sooner) to 9 (later); without it, that of the type")
	flags.Var(&f.in, "in", "not before so long from now, such as 90s or 2d")
	flags.Var(&f.at, "at", "not before this time, such as 2026-12-24T18:00:00Z")
	flags.Var(&f.expiresAt, "expires-at", "too late from this time on")
	flags.StringSliceVar(&f.after, "after", nil, "run when the tasks with these ids are done, ID or ID,ID; if one of them fails or is cancelled, the task is cancelled")
	flags.BoolVar(&f.afterAny, "after-any", false, "with --after: run when these tasks have ended, however")
	flags.StringArrayVar(&f.headers, "header", nil, "k=v, carried along; may be given more than once")
	flags.BoolVar(&f.wait, "wait", false, "wait for the task to end, and show it")
	flags.Var(&f.timeout, "timeout", "how long to wait; without it, for ever")
	flags.StringVar(&f.file, "file", "", "add the tasks in this file; - is standard input")
	flags.StringVar(&f.children, "children", "", "add the children in this file with the task, which runs when they have ended; - is standard input")
	flags.StringVar(&f.childrenName, "children-name", "", "the name of the children, by which the handler finds their counts; without it, child")
	flags.Uint32Var(&f.count, "count", 0, "with --children: run when so many have ended; without it, all")
	flags.BoolVar(&f.orFailed, "or-failed", false, "with --children: also run when one has failed or was cancelled")
	flags.Var(&f.until, "until", "with --children: run at this time at the latest")
	return cmd
}

// onlyWithoutFile refuses the flags that say something about one task.
func onlyWithoutFile(cmd *cobra.Command) error {
	for _, name := range []string{
		"data", "id", "key", "ordering-key", "priority", "in", "at", "expires-at", "after", "after-any", "header", "wait", "timeout",
	} {
		if cmd.Flags().Changed(name) {
			return exit.Errorf(exit.Usage, "--%s does not go with --file: say it in the lines", name)
		}
	}
	return nil
}

// add adds one task.
func (a *app) add(cmd *cobra.Command, c *client, f *addFlags, typ string) error {
	if cmd.Flags().Changed("timeout") && !f.wait {
		return exit.Errorf(exit.Usage, "--timeout goes with --wait")
	}
	t, err := f.task(cmd, a.stdin, typ)
	if err != nil {
		return err
	}
	t.Id = f.id
	a.name(t)
	receipts, err := a.submitOne(cmd, c, f, t)
	if err != nil {
		return err
	}
	if r := receipts[0]; !f.wait {
		return a.showReceipt(r)
	}
	a.warnOf(receipts[0])
	return a.awaitAdded(cmd.Context(), c, receipts[0].GetId(), time.Duration(f.timeout))
}

// warnOf writes the warning of a receipt.
func (a *app) warnOf(r *taskenginev1.Receipt) {
	if r.GetWarning() != "" {
		a.note("warning: %s", clean(r.GetWarning()))
	}
}

func (a *app) showReceipt(r *taskenginev1.Receipt) error {
	a.warnOf(r)
	if a.json() {
		o := messageJSON(r)
		o.set("outcome", submitOutcome(r))
		return a.printJSON(o)
	}
	switch submitOutcome(r) {
	case outcomeExisting:
		a.note("nothing was added: that task is there already")
	case outcomeReplaced:
		a.note("the task with this key has the new contents")
	case outcomeDone:
		a.note("nothing was added: the task with this key is done")
	}
	_, err := fmt.Fprintln(a.stdout, clean(r.GetId()))
	return err
}

// The outcomes of a request, as the API has them.
const (
	outcomeCreated  = "created"
	outcomeExisting = "existing"
	outcomeReplaced = "replaced"
	outcomeDone     = "already_done"
	outcomeRejected = "rejected"
	outcomeLate     = "late"
)

// submitOutcome returns the outcome of a request. A node of an older version only reports whether it has added a
// task.
func submitOutcome(r *taskenginev1.Receipt) string {
	switch {
	case r.GetCreated():
		return outcomeCreated
	case r.GetOutcome() == "":
		return outcomeExisting
	}
	return r.GetOutcome()
}

// awaitAdded waits for a task that was added and shows how it ended.
func (a *app) awaitAdded(ctx context.Context, c *client, id string, timeout time.Duration) error {
	w := waiter{
		client: c, timeout: timeout, req: &taskenginev1.WaitRequest{Ids: []string{id}}, heard: time.Now(), say: a.patient(),
	}
	res, err := w.wait(ctx)
	if err != nil {
		return fmt.Errorf("task %s was added, and its outcome is not known: %w", id, err)
	}
	if len(res.GetMissing()) == 0 {
		got, err := call(ctx, c, c.Get, &taskenginev1.GetRequest{Id: id})
		if err != nil {
			return err
		}
		if err := a.showTask(got.GetTask()); err != nil {
			return err
		}
	}
	return settlement(res)
}

// task makes the request that the flags describe.
func (f *addFlags) task(cmd *cobra.Command, stdin io.Reader, typ string) (*taskenginev1.NewTask, error) {
	changed := cmd.Flags().Changed
	t := &taskenginev1.NewTask{
		Id: f.id, Type: typ, Key: f.key, OrderingKey: f.orderingKey,
		At: f.at.message(), ExpiresAt: f.expiresAt.message(), After: f.after, AfterAny: f.afterAny,
	}
	if changed("priority") {
		t.Priority = &f.priority
	}
	if changed("in") {
		t.In = f.in.message()
	}
	if changed("data") {
		payload, err := readData(f.data, stdin)
		if err != nil {
			return nil, err
		}
		t.Input = &taskenginev1.NewTask_Payload{Payload: payload}
	}
	for _, h := range f.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok || k == "" {
			return nil, exit.Errorf(exit.Usage, "--header %.40q is not k=v", h)
		}
		if t.Headers == nil {
			t.Headers = make(map[string]string)
		}
		t.Headers[k] = v
	}
	return t, nil
}

// readData returns the payload that --data means.
func readData(data string, stdin io.Reader) ([]byte, error) {
	switch {
	case data == "-":
		return io.ReadAll(stdin)
	case strings.HasPrefix(data, "@"):
		return os.ReadFile(data[1:])
	case !json.Valid([]byte(data)):
		return nil, exit.Errorf(exit.Usage, "--data %.40q is not JSON; quote it for your shell, or give other bytes by @FILE or -", data)
	}
	return []byte(data), nil
}

// submit adds tasks that all have ids, so that it can ask again when a node took the
// request and was gone before it answered: nothing is doubled. With restarts, it asks
// again when the node says that it is stopping, too. Receipts of an earlier try count as
// created.
func submit(ctx context.Context, c *client, tasks []*taskenginev1.NewTask, restarts bool) ([]*taskenginev1.Receipt, error) {
	return untilAnswered(ctx, c, tasks, restarts, func() ([]*taskenginev1.Receipt, error) {
		res, err := call(ctx, c, c.Submit, &taskenginev1.SubmitRequest{Tasks: tasks})
		return res.GetReceipts(), err
	})
}

// untilAnswered is submit for tasks that ask adds.
func untilAnswered(ctx context.Context, c *client, tasks []*taskenginev1.NewTask, restarts bool, ask func() ([]*taskenginev1.Receipt, error)) ([]*taskenginev1.Receipt, error) {
	begin := time.Now()
	for again := false; ; again = true {
		receipts, err := ask()
		if err == nil && len(receipts) != len(tasks) {
			return nil, fmt.Errorf("the node answered %d tasks with %d receipts", len(tasks), len(receipts))
		}
		if err == nil {
			for i, r := range receipts {
				r.Created = r.Created || again && r.Id == tasks[i].Id
			}
			return receipts, nil
		}
		unsure := exit.Code(err) == exit.Unavailable && c.heard && (restarts || !c.refused) && tlsAdvice(err) == ""
		if !unsure || time.Since(begin) > patience {
			return nil, err
		}
		if err := pause(ctx, retryAfter); err != nil {
			return nil, err
		}
	}
}
