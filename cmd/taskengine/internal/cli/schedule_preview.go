package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSchedulePreview(a *app) *cobra.Command {
	var flags configFlags
	var from instant
	var count int
	cmd := &cobra.Command{
		Use:   "preview NAME",
		Short: "Show the next times of a schedule, of a node or of a configuration",
		Long: `Show the next times of a schedule, in UTC and in its time zone, and the effect of clock changes
on them. They are the times of its calendar: a pause, jitter and overlaps do not count. With -c
the schedule is that of a configuration, and no node is asked.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case count < 1 || count > server.MaxPreview:
				return exit.Errorf(exit.Usage, "--count is %d; want 1 to %d", count, server.MaxPreview)
			case flags.file == "" && len(flags.sets) > 0:
				return exit.Errorf(exit.Usage, "--set is for a configuration; give -c, too")
			case flags.file == "":
				return a.with(func(c *client) error {
					req := &taskenginev1.PreviewScheduleRequest{Name: args[0], From: from.message(), Count: uint32(count)}
					res, err := call(cmd.Context(), c, c.PreviewSchedule, req)
					if err != nil {
						return err
					}
					return a.showScheduleTimes(res.GetTimes())
				})
			}
			cfg, err := flags.load(a)
			if err != nil {
				return err
			}
			if time.Time(from).IsZero() {
				from = instant(time.Now())
			}
			return a.previewConfigured(cfg, args[0], time.Time(from), count)
		},
	}
	flags.add(cmd, "the configuration file that has the schedule; without it, the node is asked")
	cmd.Flags().Var(&from, "from", "from this time on, such as 2026-12-24T18:00:00Z; without it, from now on")
	cmd.Flags().IntVar(&count, "count", 10, "how many times, at most 1000")
	return cmd
}

// previewConfigured shows the next times of a schedule of a configuration.
func (a *app) previewConfigured(cfg *config.Config, name string, from time.Time, count int) error {
	d, err := configured(cfg, name)
	if err != nil {
		return err
	}
	moments, err := d.Preview(name, from, count)
	if err != nil {
		return exit.Errorf(exit.Config, "schedule %s: %w", name, err)
	}
	return a.showScheduleTimes(server.ScheduleTimes(moments))
}

// configured returns a schedule of a configuration.
func configured(cfg *config.Config, name string) (schedule.Definition, error) {
	d, ok := cfg.Schedules[name]
	if ok {
		return d, nil
	}
	advice := ""
	if near := suggest.Nearest(name, scheduleNames(cfg)); near != "" {
		advice = "; did you mean " + near + "?"
	}
	return d, exit.Errorf(exit.NotFound, "the configuration has no schedule %.80q%s", name, advice)
}

// showScheduleTimes writes the times of a preview.
func (a *app) showScheduleTimes(times []*taskenginev1.ScheduleTime) error {
	rows := make([][]string, len(times))
	for i, t := range times {
		rows[i] = []string{when(t.GetTime()), t.GetLocal(), changeWords(t)}
	}
	switch {
	case len(times) == 0:
		a.note("it has no more times")
		return nil
	case a.json():
		return printMessages(a, times)
	}
	return a.printTable([]string{"TIME", "LOCAL", "CLOCK CHANGE"}, rows)
}

// changeWords describes the effect of a clock change on a time.
func changeWords(t *taskenginev1.ScheduleTime) string {
	switch {
	case t.GetMovedFrom() != "":
		return "moved from " + t.GetMovedFrom() + ", which the clock jumps over"
	case t.GetRepeated():
		return "the second time: the clock is put back"
	}
	return ""
}
