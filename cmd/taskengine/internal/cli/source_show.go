package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceShow(a *app) *cobra.Command {
	var f platformFlags
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a source with its partitions or platforms, or one platform, and the reason if it does not go on",
		Long: `Show a source of topics with its partitions, a source of time slices with its platforms, or one platform
(SOURCE/PLATFORM) with its settings, its open slices and its history.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseSliceName(args[0])
			if err == nil {
				err = f.check()
			}
			if err != nil {
				return err
			}
			return a.with(func(c *client) error {
				ctx := cmd.Context()
				ofSlices, err := n.ofSlices(ctx, c)
				switch {
				case err != nil:
					return err
				case n.platform != "":
					return a.showPlatform(ctx, c, n)
				case ofSlices:
					return a.showSliceSource(ctx, c, n.source, &f)
				}
				return a.showSource(ctx, c, n.source)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// showSource shows a source of topics.
func (a *app) showSource(ctx context.Context, c *client, name string) error {
	res, err := call(ctx, c, c.GetSource, &taskenginev1.GetSourceRequest{Name: name})
	if err != nil {
		return err
	}
	if a.json() {
		return a.printMessage(res.GetSource())
	}
	if _, err := fmt.Fprint(a.stdout, sourceText(res.GetSource())); err != nil {
		return err
	}
	return a.showPartitions(res.GetSource().GetPartitions())
}

// sourceText describes a source as lines of text, without its partitions.
func sourceText(s *taskenginev1.Source) string {
	f := new(facts)
	f.add("source", s.GetName())
	f.add("topics", topicWords(s))
	f.add("group", s.GetGroup())
	if p := s.GetPaused(); p != nil {
		f.add("paused", strings.TrimSuffix("since "+when(p.GetSince())+": "+p.GetReason(), ": "))
	}
	f.add("lag", orUnknown(s.Lag))
	f.add("reading", fmt.Sprintf("%d of %d partitions", s.GetReading(), s.GetPartitionCount()))
	f.add("records", fmt.Sprintf("%d; tasks %d, unreadable %d, skipped %d", s.GetRecords(), s.GetTasks(), s.GetUnreadable(), s.GetSkipped()))
	for _, p := range s.GetPartitions() {
		for _, l := range p.GetLost() {
			f.add("lost", fmt.Sprintf("%s/%d: offsets %d to %d, noticed %s: %s", p.GetTopic(), p.GetPartition(), l.GetBegin(), l.GetEnd()-1, when(l.GetAt()), l.GetReason()))
		}
	}
	if n := s.GetOrders(); n > 0 {
		f.add("orders", fmt.Sprintf("%d requests are not carried out yet", n))
	}
	f.add("task", s.GetTaskId())
	f.add("problem", s.GetProblem())
	return f.String()
}

// showPartitions writes the partitions of a source as rows, after a line that is empty.
func (a *app) showPartitions(all []*taskenginev1.SourcePartition) error {
	if len(all) == 0 {
		return nil
	}
	rows := make([][]string, len(all))
	for i, p := range all {
		rows[i] = []string{
			p.GetTopic(), fmt.Sprint(p.GetPartition()), fmt.Sprint(p.GetPosition()), orUnknown(p.End), orUnknown(p.Lag), p.GetNode(),
			fmt.Sprint(p.GetTasks()), fmt.Sprint(p.GetUnreadable()), fmt.Sprint(p.GetSkipped()), p.GetMessage(),
		}
	}
	if _, err := fmt.Fprintln(a.stdout); err != nil {
		return err
	}
	return a.printTable([]string{"TOPIC", "PARTITION", "POSITION", "END", "LAG", "NODE", "TASKS", "UNREADABLE", "SKIPPED", "MESSAGE"}, rows,
		"SKIPPED", "END", "UNREADABLE", "TASKS")
}
