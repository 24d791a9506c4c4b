package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// seekFlags say where a source goes.
type seekFlags struct {
	begin, end, dry bool
	time            instant
	offset          uint64
	topic           string
	partition       uint32
	wait            sourceWait
}

func newSourceSeek(a *app) *cobra.Command {
	var f seekFlags
	cmd := &cobra.Command{
		Use:   "seek NAME",
		Short: "Move the positions of a source, to read records again or to leave some out",
		Long: `Move the positions of a source: to the first record that there is, behind the last one, to the
first record of a time or later, or to an offset of one partition. Without --topic all
partitions are moved. Records that were read before become tasks once more, unless their keys
are still known. A paused source stays paused.

The command prints where each partition goes. --dry-run prints it and moves nothing.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := f.request(cmd, args[0])
			if err != nil {
				return err
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.SeekSource, req)
				if err == nil && !f.dry {
					_, err = f.wait.done(cmd.Context(), c, res.GetSource())
				}
				if err != nil {
					return err
				}
				return a.showMoves(args[0], res, f.dry)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.begin, "begin", false, "to the first record that there is")
	flags.BoolVar(&f.end, "end", false, "behind the last record")
	flags.Var(&f.time, "time", "to the first record of this time or later, such as 2026-12-24T18:00:00Z")
	flags.Uint64Var(&f.offset, "offset", 0, "to this offset; needs --topic and --partition")
	flags.StringVar(&f.topic, "topic", "", "only the partitions of this topic")
	flags.Uint32Var(&f.partition, "partition", 0, "only this partition of --topic")
	flags.BoolVar(&f.dry, "dry-run", false, "only say where the partitions would go")
	return f.wait.add(cmd)
}

// request returns the request that the flags describe.
func (f *seekFlags) request(cmd *cobra.Command, name string) (*taskenginev1.SeekSourceRequest, error) {
	isGiven := cmd.Flags().Changed
	req := &taskenginev1.SeekSourceRequest{Name: name, Topic: f.topic, DryRun: f.dry}
	n := 0
	for _, is := range [...]bool{f.begin, f.end, isGiven("time"), isGiven("offset")} {
		if is {
			n++
		}
	}
	switch {
	case n != 1:
		return nil, exit.Errorf(exit.Usage, "want one of --begin, --end, --time and --offset")
	case isGiven("partition") && f.topic == "":
		return nil, exit.Errorf(exit.Usage, "--partition is that of a topic; name it with --topic")
	case isGiven("offset") && !isGiven("partition"):
		return nil, exit.Errorf(exit.Usage, "--offset is that of a partition; name it with --topic and --partition")
	case f.begin:
		req.To = &taskenginev1.SeekSourceRequest_Begin{Begin: true}
	case f.end:
		req.To = &taskenginev1.SeekSourceRequest_End{End: true}
	case isGiven("time"):
		req.To = &taskenginev1.SeekSourceRequest_Time{Time: f.time.message()}
	default:
		req.To = &taskenginev1.SeekSourceRequest_Offset{Offset: f.offset}
	}
	if isGiven("partition") {
		req.Partition = &f.partition
	}
	return req, nil
}

// showMoves writes where the partitions of a source go.
func (a *app) showMoves(name string, res *taskenginev1.SeekSourceResponse, isDry bool) error {
	if a.json() {
		return a.printJSON(append(jsonObject{{"name", name}, {"dry_run", isDry}}, messageJSON(res).without("source")...))
	}
	moves := res.GetMoves()
	if len(moves) == 0 {
		a.note("%s has no partitions yet, or the brokers do not say where these go", clean(name))
		return nil
	}
	rows := make([][]string, len(moves))
	var again, left uint64
	for i, m := range moves {
		effect := "stays"
		switch from, to := m.GetPosition(), m.GetTarget(); {
		case to < from:
			again += from - to
			effect = fmt.Sprintf("%d offsets again", from-to)
		case to > from:
			left += to - from
			effect = fmt.Sprintf("%d offsets left out", to-from)
		}
		rows[i] = []string{m.GetTopic(), fmt.Sprint(m.GetPartition()), fmt.Sprint(m.GetPosition()), fmt.Sprint(m.GetTarget()), effect}
	}
	if err := a.printTable([]string{"TOPIC", "PARTITION", "FROM", "TO", "READS"}, rows); err != nil {
		return err
	}
	verb := "reads"
	if isDry {
		verb = "would read"
	}
	a.note("%s %s %d offsets again, and leaves out %d", clean(name), verb, again, left)
	return nil
}
