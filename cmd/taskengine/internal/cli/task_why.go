package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskWhy(a *app) *cobra.Command {
	var history, tree bool
	var limit uint32
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Show the reasons why a task does not run",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) (err error) {
				if args[0], err = c.taskID(cmd.Context(), args[0]); err != nil {
					return err
				}
				if tree {
					w := &whyTree{a: a, c: c, history: history, limit: int(max(limit, 1)), seen: make(map[string]bool)}
					return w.print(cmd.Context(), args[0])
				}
				res, err := call(cmd.Context(), c, c.Why, &taskenginev1.WhyRequest{Id: args[0], History: history})
				if err != nil {
					return aboutTask(args[0], err)
				}
				if a.json() {
					err = a.printMessage(res)
				} else {
					text := a.whyText(res, time.Now())
					if history {
						text += historyText(res)
					}
					_, err = fmt.Fprint(a.stdout, text)
				}
				if err != nil {
					return err
				}
				return a.partial(res.GetSilent(), false)
			})
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "also print how long it has waited for what")
	cmd.Flags().BoolVar(&tree, "tree", false, "also explain the tasks that it waits for: its children, and the tasks before it in the order of its key")
	cmd.Flags().Uint32Var(&limit, "limit", 100, "with --tree: how many tasks are shown at most")
	return cmd
}

// historyText describes how long a task has waited for what, as lines of text.
func historyText(res *taskenginev1.WhyResponse) string {
	var b strings.Builder
	fmt.Fprintf(&b, "history, by the notes of node %s since %s:\n", cmp.Or(clean(res.GetNode()), "-"), res.GetNotedSince().AsTime().Format(time.RFC3339))
	for _, w := range res.GetWaits() {
		fmt.Fprintf(&b, "  %-10s  %-8s  %s\n", clean(w.GetCode()), units.Span(w.GetTotal().AsDuration()), clean(w.GetText()))
	}
	return b.String()
}

// whyText describes why a task does not run, as lines of text.
func (a *app) whyText(res *taskenginev1.WhyResponse, now time.Time) string {
	t := res.GetTask()
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s for %s  priority=%d attempt=%d", clean(t.GetId()), clean(t.GetType()), a.coloured(t.GetState(), clean(t.GetState())),
		age(now, t.GetUpdatedAt()), t.GetPriority(), t.GetAttempt())
	if t.GetKey() != "" {
		fmt.Fprintf(&b, " key=%s", clean(t.GetKey()))
	}
	if t.GetOrderingKey() != "" {
		fmt.Fprintf(&b, " ordering_key=%s", clean(t.GetOrderingKey()))
	}
	b.WriteByte('\n')
	for _, r := range res.GetReasons() {
		fmt.Fprintf(&b, "  %-10s  %s", clean(r.GetCode()), clean(r.GetText()))
		if until := r.GetUntil(); until != nil && until.AsTime().After(now) {
			fmt.Fprintf(&b, " (%s %s)", untilWord(r.GetCode()), units.Span(until.AsTime().Sub(now)))
		}
		b.WriteByte('\n')
		if holders := r.GetHolders(); len(holders) > 0 && r.GetCode() != "children" && r.GetCode() != "after" { // its text has them
			fmt.Fprintf(&b, "  %-10s  held by %s\n", "", clean(strings.Join(holders, ", ")))
		}
	}
	return b.String()
}

// untilWord introduces the time of a reason: a running task times out then, any other reason ends
// then.
func untilWord(code string) string {
	if code == "running" {
		return "times out in"
	}
	return "in"
}
