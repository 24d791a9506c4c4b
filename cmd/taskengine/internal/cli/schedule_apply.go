package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleApply(a *app) *cobra.Command {
	var flags configFlags
	var prune bool
	cmd := &cobra.Command{
		Use:   "apply [NAME...]",
		Short: "Give a node the schedules of a configuration",
		Long: `Create and update the schedules of a node from a configuration: all of its section schedules,
or the named ones. A changed schedule fires for times after the change. A pause goes on. With
--prune, schedules that the configuration does not name are deleted from the node.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if prune && len(args) > 0 {
				return exit.Errorf(exit.Usage, "--prune is for all schedules of a configuration; give no names with it")
			}
			if err := flags.find(); err != nil {
				return err
			}
			if flags.file == "" {
				return exit.Errorf(exit.Usage, "there is no ./%s; -c names another configuration", ownConfig)
			}
			cfg, err := flags.load(a)
			if err != nil {
				return err
			}
			wanted, err := wantedSchedules(cfg, args)
			if err != nil {
				return err
			}
			if prune && len(wanted) == 0 {
				return exit.Errorf(exit.Usage, "%s has no schedules, so --prune would delete all; delete them by name", flags.file)
			}
			return a.with(func(c *client) error { return a.applySchedules(cmd.Context(), c, wanted, prune) })
		},
	}
	flags.add(cmd, "the configuration file; without it, ./taskengine.yaml")
	cmd.Flags().BoolVar(&prune, "prune", false, "delete the schedules that the configuration does not name")
	return cmd
}

// scheduleNames returns the names of the schedules of a configuration.
func scheduleNames(cfg *config.Config) []string { return slices.Sorted(maps.Keys(cfg.Schedules)) }

// wantedSchedules returns the schedules of a configuration that are named, or all if none is.
func wantedSchedules(cfg *config.Config, names []string) (map[string]schedule.Definition, error) {
	if len(names) == 0 {
		return cfg.Schedules, nil
	}
	wanted := make(map[string]schedule.Definition, len(names))
	for _, name := range names {
		d, err := configured(cfg, name)
		if err != nil {
			return nil, err
		}
		wanted[name] = d
	}
	return wanted, nil
}

// applySchedules creates or changes the wanted schedules on a node, and shows the outcomes. If one fails, the ones before it
// stay applied.
func (a *app) applySchedules(ctx context.Context, c *client, wanted map[string]schedule.Definition, prune bool) error {
	var done []scheduleOutcome
	apply := func() error {
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			d := wanted[name]
			outcome, err := outcomeOf(ctx, c, name, &d)
			if err != nil {
				return err
			}
			done = append(done, outcome)
		}
		if !prune {
			return nil
		}
		pruned, err := a.prune(ctx, c, wanted)
		done = append(done, pruned...)
		return err
	}
	err := apply()
	if len(done) == 0 && err == nil {
		a.note("the configuration has no schedules")
	}
	return errors.Join(err, a.showOutcomes(done...))
}

// outcomeOf has a node apply a schedule.
func outcomeOf(ctx context.Context, c *client, name string, d *schedule.Definition) (scheduleOutcome, error) {
	res, err := call(ctx, c, c.ApplySchedule, &taskenginev1.ApplyScheduleRequest{Name: name, Definition: server.DefinitionMessage(d)})
	return scheduleOutcome{name, res.GetOutcome()}, err
}

// prune deletes the schedules of a node that are not wanted. It lists them first.
func (a *app) prune(ctx context.Context, c *client, wanted map[string]schedule.Definition) (done []scheduleOutcome, err error) {
	all, err := allSchedules(ctx, c)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all {
		if _, ok := wanted[s.GetName()]; !ok {
			names = append(names, s.GetName())
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	a.note("these schedules are deleted: %s", strings.Join(names, ", "))
	for _, name := range names {
		_, err := call(ctx, c, c.DeleteSchedule, &taskenginev1.DeleteScheduleRequest{Name: name})
		if exit.Code(err) == exit.NotFound {
			continue // it is deleted already
		}
		if err != nil {
			return done, err
		}
		done = append(done, scheduleOutcome{name, "deleted"})
	}
	return done, nil
}
