package cli

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/brokers"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordinator"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
)

// configFlags are the flags of commands that read a configuration.
type configFlags struct {
	file string
	sets []string
}

func (f *configFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", usage)
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "replace a value, such as node.slots=5; may be given more than once")
}

// ownConfig is the configuration file that commands use if they are given none and it exists.
const ownConfig = "taskengine.yaml"

// find takes the configuration file in the working folder, if there is one and the command line
// names none.
func (f *configFlags) find() error {
	if f.file != "" {
		return nil
	}
	switch _, err := os.Stat(ownConfig); {
	case err == nil:
		f.file = ownConfig
	case !errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.Config, "the configuration: %w", err)
	}
	return nil
}

// load reads the configuration that the command line names.
func (f *configFlags) load(a *app) (*config.Config, error) {
	cfg, err := config.Load(f.file, f.sets, a.env)
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	return cfg, nil
}

const configUsage = "the configuration file; without it, ./taskengine.yaml if that is there, and else everything has its default"

func newConfigCheck(a *app) *cobra.Command {
	var flags configFlags
	var probe bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say everything that is wrong with a configuration",
		Long: `Print all problems of a configuration: its own mistakes, and its requirements that are not met,
such as missing programs or a database with other tables.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.find(); err != nil {
				return err
			}
			cfg, err := flags.load(a)
			if err != nil {
				return err
			}
			if probe {
				if problems := slices.Concat(cfg.Probe(), probeStore(cfg), probeDatabases(cmd.Context(), cfg), probeCoordinator(cmd.Context(), cfg), brokers.Probe(cmd.Context(), cfg)); len(problems) > 0 {
					return &config.Errors{Problems: problems}
				}
			}
			if probe {
				a.noteRoom(cfg)
			}
			for _, advice := range cfg.Advice() {
				a.note("warning: %s", advice)
			}
			if flags.file == "" {
				a.note("there is no ./%s, and the defaults are valid; -c names another file", ownConfig)
				return nil
			}
			a.note("the configuration %s is valid", flags.file)
			return nil
		},
	}
	flags.add(cmd, configUsage)
	cmd.Flags().BoolVar(&probe, "probe", true, "look at this machine, the database, the coordinator and Kafka, too; --probe=false does not")
	return cmd
}

// probeCoordinator returns why a node cannot use the coordinator that the configuration names.
func probeCoordinator(ctx context.Context, c *config.Config) (found []config.Problem) {
	if c.Storage.Driver == config.Memory || !c.Coordination.IsExternal() {
		return nil
	}
	if _, err := coordinator.Probe(ctx, c.Coordination); err != nil {
		found = append(found, c.ProblemAt(err.Error(), "coordination", "driver"))
	}
	return found
}

// probeDatabases returns the problems of the databases that the configuration names.
func probeDatabases(ctx context.Context, c *config.Config) (found []config.Problem) {
	if c.Storage.Driver != config.Postgres {
		return nil
	}
	if err := database.Probe(ctx, c.Storage, database.Key(config.Main)); err != nil {
		found = append(found, c.ProblemAt(err.Error(), "storage", "url"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Storage.Databases)) {
		other := c.Storage
		other.URL = c.Storage.Databases[name]
		if err := database.Probe(ctx, other, database.Key(name)); err != nil {
			found = append(found, c.ProblemAt(err.Error(), "storage", "databases", name))
		}
	}
	return found
}
