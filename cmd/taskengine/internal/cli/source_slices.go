package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of source that are about time slices share this file.

// sliceName is the argument NAME of a command: SOURCE, or SOURCE/PLATFORM.
type sliceName struct{ source, platform string }

// parseSliceName splits an argument.
func parseSliceName(arg string) (n sliceName, err error) {
	isPlatform := false
	n.source, n.platform, isPlatform = strings.Cut(arg, "/")
	if n.source == "" || isPlatform && n.platform == "" {
		return n, exit.Errorf(exit.Usage, "%.80q is neither SOURCE nor SOURCE/PLATFORM", arg)
	}
	return n, nil
}

// parseSource returns the source that an argument names.
func parseSource(arg string) (string, error) {
	n, err := parseSliceName(arg)
	if err == nil && n.platform != "" {
		err = exit.Errorf(exit.Usage, "%.80q is a platform; name its source", arg)
	}
	return n.source, err
}

// String returns the argument.
func (n sliceName) String() string { return strings.TrimSuffix(n.source+"/"+n.platform, "/") }

// ofSlices reports whether a source of the node is one of time slices. If there is no such source at all, it is not.
func (n sliceName) ofSlices(ctx context.Context, c *client) (bool, error) {
	if n.platform != "" {
		return true, nil
	}
	_, err := call(ctx, c, c.ListPlatforms, &taskenginev1.ListPlatformsRequest{Source: n.source, Limit: 1})
	if exit.Code(err) == exit.NotFound {
		return false, nil
	}
	return err == nil, err
}

// sliceOutcome is the answer to an order for time slices.
type sliceOutcome struct {
	platform  *taskenginev1.Platform // nil if the order was for a source
	platforms uint32                 // that have the order
	onlyOn    string                 // the node with these platforms in a store of its own; "" if all nodes have them
}

// sliceOrder has the flags of commands that give orders for time slices.
type sliceOrder struct {
	reason string
	prefix string // of the platforms, for an order to a source
	wait   sourceWait
}

func (o *sliceOrder) add(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&o.reason, "reason", "", "why; it is kept in the history")
	return o.wait.add(cmd)
}

// addPrefix adds the flag of orders that many platforms can have.
func (o *sliceOrder) addPrefix(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&o.prefix, "prefix", "", "of a source of time slices, only platforms with names that begin with it")
	return cmd
}

// check returns an error if NAME is a platform and there is a prefix.
func (o *sliceOrder) check(cmd *cobra.Command, n sliceName) error {
	switch isGiven := cmd.Flags().Changed("prefix"); {
	case isGiven && o.prefix == "":
		return exit.Errorf(exit.Usage, "--prefix is empty; without it, the order is for all platforms of a source")
	case isGiven && n.platform != "":
		return exit.Errorf(exit.Usage, "--prefix is for the platforms of a source, and %s is one platform", clean(n.String()))
	}
	return nil
}

// newSliceEdit returns a command that gives an order for time slices, waits until it is carried out, and shows what it has changed. onlyPlatform
// says that a source cannot have the order.
func newSliceEdit(a *app, use, short, long string, onlyPlatform bool, do func(ctx context.Context, c *client, n sliceName, o *sliceOrder) (sliceOutcome, error)) *cobra.Command {
	var o sliceOrder
	cmd := o.add(&cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseSliceName(args[0])
			if err != nil {
				return err
			}
			if err := o.check(cmd, n); err != nil {
				return err
			}
			if onlyPlatform && n.platform == "" {
				return exit.Errorf(exit.Usage, "%.80q is a source; name a platform of it, as %s/PLATFORM", args[0], clean(n.source))
			}
			return a.with(func(c *client) error {
				out, err := do(cmd.Context(), c, n, &o)
				if err != nil {
					return err
				}
				return a.showSliceOutcome(cmd.Context(), c, n, out, &o)
			})
		},
	})
	if !onlyPlatform {
		o.addPrefix(cmd)
	}
	return cmd
}

// showSliceOutcome waits until an order is carried out, and shows the platform. For an order to all platforms of a source it shows how many
// these are.
func (a *app) showSliceOutcome(ctx context.Context, c *client, n sliceName, out sliceOutcome, o *sliceOrder) error {
	if out.platform == nil {
		a.noteOnlyOn(out.onlyOn)
		if a.json() {
			answer := jsonObject{{"name", n.source}, {"platforms", out.platforms}}
			if out.onlyOn != "" {
				answer = append(answer, jsonField{"only_on", out.onlyOn})
			}
			return a.printJSON(answer)
		}
		a.note("%s: %d platforms have the order", clean(n.source), out.platforms)
		return nil
	}
	p := out.platform
	err := o.wait.until(ctx, "platform "+n.String(), func() (uint32, string) { return p.GetOrders(), p.GetProblem() }, func() error {
		res, err := call(ctx, c, c.GetPlatform, &taskenginev1.GetPlatformRequest{Source: n.source, Platform: n.platform})
		p = res.GetPlatform()
		return err
	})
	if err != nil {
		return err
	}
	if a.json() {
		return a.printMessage(p)
	}
	return a.showPlatformRows([]*taskenginev1.Platform{p})
}

// noteOnlyOn says that an order for a source is for one node; "" is all nodes.
func (a *app) noteOnlyOn(node string) {
	if node != "" {
		a.note("the order is for the platforms of the node %s only, because nodes have stores of their own; give it to each of these nodes, or to each platform", clean(node))
	}
}

// showSliceSourceRows writes sources of time slices as rows, or each as a line of JSON.
func (a *app) showSliceSourceRows(sources ...*taskenginev1.SliceSource) error {
	if a.json() {
		return printMessages(a, sources)
	}
	return a.printSheets(sliceSourceSheet(sources))
}

func sliceSourceSheet(sources []*taskenginev1.SliceSource) sheet {
	rows := make([][]string, len(sources))
	for i, s := range sources {
		rows[i] = []string{
			s.GetName(), s.GetType(), fmt.Sprint(s.GetPlatformCount()), when(s.GetLowWater()), lagWords(s.GetCursorLag()), fmt.Sprint(s.GetRunning()), fmt.Sprint(s.GetFailed()),
			fmt.Sprint(s.GetStopped()), fmt.Sprint(s.GetPaused()), fmt.Sprint(s.GetProblems()), s.GetProblem(),
		}
	}
	return sheet{
		head: []string{"SOURCE", "TYPE", "PLATFORMS", "LOW-WATER", "LAG", "RUNNING", "FAILED", "STOPPED", "PAUSED", "PROBLEMS", "PROBLEM"}, rows: rows,
		spare: []string{"TYPE", "RUNNING"},
	}
}

// showPlatformRows writes platforms as rows.
func (a *app) showPlatformRows(all []*taskenginev1.Platform) error {
	rows := make([][]string, len(all))
	for i, p := range all {
		rows[i] = []string{
			p.GetName(), platformState(p), when(p.GetCursor()), when(p.GetLowWater()), lagWords(p.GetCursorLag()), fmt.Sprint(p.GetRunning()), fmt.Sprint(p.GetFailed()),
			fmt.Sprint(p.GetDone()), p.GetProblem(),
		}
	}
	return a.printTable([]string{"PLATFORM", "STATE", "CURSOR", "LOW-WATER", "LAG", "RUNNING", "FAILED", "DONE", "PROBLEM"}, rows, "DONE", "LOW-WATER", "RUNNING")
}

// platformState says in a word whether a platform makes slices.
func platformState(p *taskenginev1.Platform) string {
	switch {
	case p.GetRemoved():
		return "removed"
	case p.GetPaused() != nil:
		return "paused"
	case p.GetStopped() != nil:
		return "stopped"
	case p.GetCursor() == nil:
		return "new"
	}
	return "active"
}

// lagWords writes the lag of a cursor; nothing if there is none.
func lagWords(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return units.Span(max(0, d.AsDuration()).Truncate(time.Second))
}
