package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// selectFlags are the flags of commands that change one schedule, or many by a prefix of their names.
type selectFlags struct {
	prefix      string
	all, dryRun bool
}

func (f *selectFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "all schedules with names that begin with it, in place of NAME")
	cmd.Flags().BoolVar(&f.all, "all", false, "all schedules, in place of NAME")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "with --prefix or --all: only say how many it would change")
}

// check returns an error unless exactly one of a name, a prefix and --all is given.
func (f *selectFlags) check(cmd *cobra.Command, names []string) error {
	isPrefix := cmd.Flags().Changed("prefix")
	switch {
	case isPrefix && f.prefix == "":
		return exit.Errorf(exit.Usage, "--prefix is empty; --all is for all schedules")
	case isPrefix && f.all:
		return exit.Errorf(exit.Usage, "--prefix and --all exclude each other")
	case (isPrefix || f.all) && len(names) > 0:
		return exit.Errorf(exit.Usage, "give either NAME or --prefix or --all")
	case !isPrefix && !f.all && len(names) == 0:
		return exit.Errorf(exit.Usage, "NAME is missing; want %s", cmd.UseLine())
	case f.dryRun && len(names) > 0:
		return exit.Errorf(exit.Usage, "--dry-run is for --prefix and --all")
	}
	return nil
}

// changePart asks a node to change the schedules of a selection. It returns the outcome for a part of them.
type changePart func(ctx context.Context, c *client, of *taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error)

// changeSchedules changes all schedules of a selection, part by part, and shows the counts. verb is in the past tense.
func (a *app) changeSchedules(ctx context.Context, c *client, f *selectFlags, verb string, change changePart) error {
	of := &taskenginev1.ScheduleSelection{Prefix: f.prefix, All: f.all, DryRun: f.dryRun, Limit: server.MaxList}
	sum := new(taskenginev1.SchedulesChanged)
	for {
		part, err := change(ctx, c, of)
		if err != nil {
			if sum.GetChanged() > 0 && !f.dryRun {
				a.note("%d schedules were %s before the error; the same command changes the rest", sum.GetChanged(), verb)
			}
			return err
		}
		sum.Changed, sum.Unchanged = sum.GetChanged()+part.GetChanged(), sum.GetUnchanged()+part.GetUnchanged()
		sum.Failed = append(sum.Failed, part.GetFailed()...)
		for _, failure := range part.GetFailed() {
			a.note("%s: %s", failure.GetName(), failure.GetError())
		}
		if of.PageToken = part.GetNextPageToken(); of.PageToken == "" {
			break
		}
		a.note("%d schedules so far, up to %s", sum.GetChanged()+sum.GetUnchanged()+uint32(len(sum.GetFailed())), of.GetPageToken())
	}
	if err := a.showChanged(f, verb, sum); err != nil {
		return err
	}
	if n := len(sum.GetFailed()); n > 0 {
		return exit.Errorf(exit.NotAllowed, "%d schedules could not be %s", n, verb)
	}
	return nil
}

// showChanged writes the counts of a change.
func (a *app) showChanged(f *selectFlags, verb string, sum *taskenginev1.SchedulesChanged) error {
	if a.json() {
		return a.printJSON(jsonObject{
			{"prefix", f.prefix}, {"dry_run", f.dryRun}, {"changed", sum.GetChanged()}, {"unchanged", sum.GetUnchanged()}, {"failed", len(sum.GetFailed())},
		})
	}
	would := ""
	if f.dryRun {
		would = "would be "
	}
	_, err := fmt.Fprintf(a.stdout, "%d schedules %s%s, %d are not changed\n", sum.GetChanged(), would, verb, sum.GetUnchanged())
	return err
}
