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

func newLimitWhy(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "why LIMIT",
		Short: "Say which tasks and nodes hold a limit, how many tasks wait for it, and when its rate allows the next start",
		Long:  "Say which tasks and nodes hold a limit, how many tasks wait for it, and when its rate allows the next start." + limitHelp,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, value, err := splitLimit(args[0])
			if err != nil {
				return err
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.WhyLimit, &taskenginev1.WhyLimitRequest{Name: name, Value: value})
				if err != nil {
					return err
				}
				if a.json() {
					err = a.printMessage(res)
				} else {
					_, err = fmt.Fprint(a.stdout, whyLimitText(res, time.Now()))
				}
				if err != nil {
					return err
				}
				return a.partial(res.GetSilent(), false)
			})
		},
	}
}

// whyLimitText describes the counts of a limit as lines of text.
func whyLimitText(res *taskenginev1.WhyLimitResponse, now time.Time) string {
	var b strings.Builder
	b.WriteString(limitText(res.GetLimit(), now))
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-8s %s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	for _, t := range res.GetTasks() {
		since := "being started"
		if t.GetStartedAt() != nil {
			since = "for " + age(now, t.GetStartedAt())
		}
		line("", "task %s  %s  takes %d, %s, on node %s", t.GetId(), t.GetType(), t.GetSlots(), since, t.GetNode())
	}
	for _, q := range res.GetQueued() {
		line("waiting", "%d ready tasks of type %s in the memory of node %s", q.GetTasks(), q.GetType(), q.GetNode())
	}
	for _, n := range res.GetNodes() {
		line("node", "%s", nodeWords(n, now))
	}
	if problem := res.GetNodesProblem(); problem != "" {
		line("nodes", "not known: %s", problem)
	}
	if next := res.GetNextStart(); next != nil && next.AsTime().After(now) {
		line("next", "its rate is used up: the next start is in %s", units.Span(next.AsTime().Sub(now)))
	}
	return b.String()
}

// nodeWords describes the permits of a node for a limit of the cluster.
func nodeWords(n *taskenginev1.LimitNode, now time.Time) string {
	name, since := cmp.Or(n.GetNode(), "(not known)"), age(now, n.GetSince())
	switch {
	case n.GetHeld() == 0:
		return fmt.Sprintf("%s  has no permits and waits for %d, for %s", name, n.GetWant(), since)
	case n.GetWant() > n.GetHeld():
		return fmt.Sprintf("%s  has %d permits and waits for %d more; it got the last %s ago", name, n.GetHeld(), n.GetWant()-n.GetHeld(), since)
	}
	return fmt.Sprintf("%s  has %d permits; it got the last %s ago", name, n.GetHeld(), since)
}
