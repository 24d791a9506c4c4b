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
	var how applyFlags
	cmd := &cobra.Command{
		Use:   "apply [NAME...]",
		Short: "Give a node the schedules of a configuration",
		Long: `Create and update the schedules of a node from a configuration: all of its section schedules,
or the named ones. A changed schedule fires for times after the change. A pause goes on. With
--prune, schedules that the configuration does not name are deleted from the node: with
--prefix only those with names that begin with it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := how.check(cmd, args); err != nil {
				return err
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
			if how.prune && len(wanted) == 0 {
				return exit.Errorf(exit.Usage, "%s has no schedules, so --prune would delete all; delete them by name", flags.file)
			}
			return a.with(func(c *client) error { return a.applySchedules(cmd.Context(), c, wanted, &how) })
		},
	}
	flags.add(cmd, "the configuration file; without it, ./taskengine.yaml")
	how.add(cmd)
	return cmd
}

// applyFlags are the flags of schedule apply that are not about the configuration.
type applyFlags struct {
	prune   bool
	prefix  string // of the schedules to prune
	version uint64
	isOf    bool // a version is given
}

func (f *applyFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.prune, "prune", false, "delete the schedules that the configuration does not name")
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "with --prune: only those with names that begin with it")
	cmd.Flags().Uint64Var(&f.version, "if-version", 0, "with one NAME: only if the schedule has this version; 0 means that there is none")
}

func (f *applyFlags) check(cmd *cobra.Command, names []string) error {
	f.isOf = cmd.Flags().Changed("if-version")
	switch {
	case f.prune && len(names) > 0:
		return exit.Errorf(exit.Usage, "--prune is for all schedules of a configuration; give no names with it")
	case f.prefix != "" && !f.prune:
		return exit.Errorf(exit.Usage, "--prefix is for --prune")
	case f.isOf && len(names) != 1:
		return exit.Errorf(exit.Usage, "--if-version is the version of one schedule; give its NAME")
	}
	return nil
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
func (a *app) applySchedules(ctx context.Context, c *client, wanted map[string]schedule.Definition, how *applyFlags) error {
	var done []scheduleOutcome
	apply := func() error {
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			d := wanted[name]
			outcome, err := outcomeOf(ctx, c, name, &d, how)
			if err != nil {
				return err
			}
			done = append(done, outcome)
		}
		if !how.prune {
			return nil
		}
		pruned, err := a.prune(ctx, c, how.prefix, wanted)
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
func outcomeOf(ctx context.Context, c *client, name string, d *schedule.Definition, how *applyFlags) (scheduleOutcome, error) {
	req := &taskenginev1.ApplyScheduleRequest{Name: name, Definition: server.DefinitionMessage(d)}
	if how.isOf {
		req.IfVersion = &how.version
	}
	res, err := call(ctx, c, c.ApplySchedule, req)
	return scheduleOutcome{name, res.GetOutcome()}, err
}

// prune deletes the schedules of a node with names that begin with prefix and that are not wanted. It lists them first.
func (a *app) prune(ctx context.Context, c *client, prefix string, wanted map[string]schedule.Definition) (done []scheduleOutcome, err error) {
	all, err := allSchedules(ctx, c, prefix)
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
